"""Statements are read when they are first used; here all of them are."""

import gc
import pkgutil
from importlib import import_module
from pathlib import Path

import ferryman
from ferryman.kernel import db


def test_every_statement_that_is_named_has_its_file_and_every_file_its_name() -> None:
    for module in pkgutil.walk_packages(ferryman.__path__, "ferryman."):
        if not module.name.endswith("__main__"):
            import_module(module.name)
    gc.unfreeze()  # a process of tests freezes what it imported, and frozen objects are not listed
    named = [each for each in gc.get_objects() if isinstance(each, db._Filed)]
    gc.freeze()
    for statement in named:
        assert statement.names is not None, statement
    root = Path(ferryman.__path__[0])
    used = {root.joinpath(*each._package.split(".")[1:], "sql", f"{each.name}.sql") for each in named}
    assert used == set(root.glob("**/sql/**/*.sql"))
