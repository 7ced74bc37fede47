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
