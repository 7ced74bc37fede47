"""A first try that lasts is told of, so that its worker can be seen (C8); a short one costs nothing."""

import asyncio
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest

from ferryman.commands.orchestrator import Word
from ferryman.commands.work.mirror import Mirror
from ferryman.kernel import ids
from tests.patience import PATIENCE_SECONDS


class Book:
    """What was written, and a bell for it."""

    def __init__(self) -> None:
        self.words: list[Word] = []
        self.written = asyncio.Event()

    async def write(self, words: Sequence[Word]) -> int:
        self.words += words
        self.written.set()
        return len(words)


class Try:
    """As much of a claim as the mirror looks at."""

    def __init__(self) -> None:
        self.id = ids.new_id()
        self.epoch = 1


@pytest.mark.contract("C8", "C6")
async def test_a_first_try_that_lasts_is_told_of_and_one_that_has_ended_is_not() -> None:
    book, shown = Book(), ids.new_id()
    mirror = Mirror(book.write, patience=0.01)
    lasting: Any = Try()
    short: Any = Try()

    mirror.begin(short, UUID(int=1))
    mirror.end(short)
    mirror.begin(lasting, shown)
    async with asyncio.timeout(PATIENCE_SECONDS):
        await book.written.wait()
    await mirror.close()

    assert book.words == [Word(lasting.id, 1, shown, None)]


@pytest.mark.contract("C8")
async def test_what_has_begun_is_forgotten_when_the_app_closes() -> None:
    book = Book()
    mirror = Mirror(book.write, patience=0.0)
    begun: Any = Try()
    mirror._watch(begun, UUID(int=1))

    await mirror.close()

    assert (book.words, mirror._begun) == ([], {})
