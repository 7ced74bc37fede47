"""What the doors promise by their signatures."""

import ast
import inspect
import textwrap

from ferryman.app.tasks import UNSAID, Tasks


def test_a_create_that_says_something_is_not_taken_for_one_that_says_nothing() -> None:
    """The short way looks at each option by name: one that it forgot would be ignored."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(Tasks.create)))
    [looked_at] = [
        {each.id for each in node.value.elts if isinstance(each, ast.Name)}
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple)
    ]

    options = inspect.signature(Tasks.create).parameters.values()

    assert len(looked_at) == len(UNSAID)
    assert looked_at == {each.name for each in options if each.kind is each.KEYWORD_ONLY and each.name != "connection"}
