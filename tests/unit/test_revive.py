"""What reads the results of steps keeps nothing of the handlers that they ran in (T19)."""

import gc
import weakref
from collections.abc import Callable
from typing import Annotated, Any

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
