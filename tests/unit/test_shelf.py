"""What is costly to read is read once for all who look, and what nobody looks at leaves."""

import asyncio

import pytest

from ferryman.dashboard.shelf import Shelf

pytestmark = pytest.mark.contract("S5")


async def test_all_who_look_at_once_share_one_reading() -> None:
    made: list[str] = []

    async def make() -> str:
        made.append("x")
        await asyncio.sleep(0)
        return "x"

    shelf = Shelf(every=60)
    assert await asyncio.gather(*(shelf.get("a", make) for _ in range(10))) == ["x"] * 10
    assert await shelf.get("b", make) == "x"
    assert len(made) == 2


async def test_what_was_not_asked_for_longest_leaves() -> None:
    made: list[int] = []

    async def ask(name: int) -> int:
        async def make() -> int:
            made.append(name)
            return name

        return await shelf.get(name, make)

    shelf = Shelf(every=60, most=2)
    for name in (1, 2, 1, 3, 1, 2):
        assert await ask(name) == name
    assert made == [1, 2, 3, 2]
    assert len(shelf) == 2


async def test_a_reading_that_fails_is_made_again() -> None:
    async def fails() -> int:
        raise ValueError("away")

    tries = iter([fails, None])

    async def make() -> int:
        turn = next(tries)
        return 7 if turn is None else await turn()

    shelf = Shelf(every=60)
    with pytest.raises(ValueError, match="away"):
        await shelf.get("a", make)
    assert await shelf.get("a", make) == 7
