"""What the judge of interleavings holds for possible."""

from collections.abc import Sequence

import pytest

from ferryman.kernel.pool import Session
from tests.property.interleave import Program
from tests.property.oracle import InTurn


async def first(tx: Session) -> None: ...


async def second(tx: Session) -> None: ...


async def who_came_first(order: Sequence[Program]) -> list[str]:
    """A parent and its child, both ended by whoever came first."""
    return ["first" if order[0] is first else "second"] * 2


@pytest.mark.contract("R4")
@pytest.mark.parametrize(
    ("parent", "child", "may"), [("first", "first", True), ("second", "second", True), ("first", "second", False)]
)
async def test_what_no_single_order_leaves_is_wrong_although_each_part_of_it_could_be(
    parent: str, child: str, may: bool
) -> None:
    assert await InTurn([first, second], who_came_first).tells([parent, child]) is may


@pytest.mark.contract("R4")
async def test_the_order_in_which_they_ended_is_tried_first() -> None:
    tried = []

    async def act(order: Sequence[Program]) -> list[str]:
        tried.append([each.__name__ for each in order])
        return await who_came_first(order)

    turns = InTurn([first, second], act)

    assert await turns.tells(["second", "second"], came=(1, 0))
    assert tried == [["second", "first"]]
    assert await turns.tells(["first", "first"], came=(1, 0))
    assert not await turns.tells(["nobody", "nobody"], came=(1, 0))
    assert tried == [["second", "first"], ["first", "second"]]
