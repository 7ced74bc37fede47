"""What reads the results of steps keeps nothing of the handlers that they ran in (T19)."""

import gc
import weakref
from collections.abc import Callable
from decimal import Decimal
from typing import Annotated, Any
from uuid import UUID

import pytest

from ferryman.agents.work.steps import Spent, _revived
from ferryman.tasks.work import revive
from ferryman.tasks.work.revive import revived


class Burden:
    """What a handler has in its hands."""


def step_of(burden: Burden) -> Callable[[], Any]:
    def step() -> tuple[int, ...]:
        return (len(str(burden)),)

    return step


def spent_by(burden: Burden) -> Callable[[], Any]:
    def step() -> Spent[tuple[int, ...]]:
        return Spent((len(str(burden)),))

    return step


@pytest.mark.contract("T19")
@pytest.mark.parametrize(("step", "read"), [(step_of, revived), (spent_by, _revived)], ids=["task", "turn"])
def test_a_step_inside_a_handler_is_forgotten_with_it(
    step: Callable[[Burden], Callable[[], Any]], read: Callable[[Any, str], Any]
) -> None:
    burden = Burden()
    left = weakref.ref(burden)

    assert read(step(burden), "[1, 2]") == (1, 2)
    del burden
    gc.collect()

    assert left() is None


def test_a_reader_is_made_once_for_a_piece_of_code() -> None:
    readers = [revive._readers(step_of(Burden())) for _ in range(2)]

    assert readers[0] is readers[1] is not None


def test_hints_that_cannot_be_hashed_and_things_without_code_are_read_too() -> None:
    def listed() -> Annotated[tuple[int, ...], ["no key"]]:
        return ()

    assert revived(listed, "[1]") == (1,)
    assert revive._readers(print) is None


def test_alike_code_of_two_modules_is_read_by_the_hints_of_each() -> None:
    text = "from __future__ import annotations\nfrom decimal import Decimal as {}\nfrom uuid import UUID as {}\n"
    text += "def fetch() -> Kept: ...\n"
    modules: list[dict[str, Any]] = [{"__name__": "one"}, {"__name__": "two"}]
    for module, names in zip(modules, [("Kept", "Other"), ("Other", "Kept")], strict=True):
        exec(compile(text.format(*names), "fetch.py", "exec"), module)

    assert modules[0]["fetch"].__code__ == modules[1]["fetch"].__code__
    assert revived(modules[0]["fetch"], '"1.5"') == Decimal("1.5")
    assert revived(modules[1]["fetch"], f'"{UUID(int=1)}"') == UUID(int=1)
