"""Creates are measured while somebody listens as a worker does."""

from __future__ import annotations

import time
from collections.abc import Callable

import psycopg
import pytest

from bench.peers.ferryman import CHANNELS, PRESENCE
from bench.server import listening
from ferryman import Ferryman

WITHIN = 30.0
BY_HAND = """notify ferryman_doorbell_ready, ''"""


def heard_by_hand(url: str, heard: Callable[[], int], *, before: int) -> int:
    """Ring by hand, and wait until that and what was rung before it has come; return how much it was."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(BY_HAND)
    until = time.monotonic() + WITHIN
    while heard() <= before:
        assert time.monotonic() < until, "the ring never came"
    return heard()


@pytest.mark.parametrize(("presence", "rings"), [(PRESENCE, 1), ("", 0)])
async def test_a_create_rings_for_who_listens_and_says_so(database_url: str, presence: str, rings: int) -> None:
    app = Ferryman(database_url)

    @app.task
    async def noop(job: int) -> None: ...

    async with app:
        with listening(database_url, CHANNELS, presence) as heard:
            await app.tasks.create(noop, job=0)

            assert heard_by_hand(database_url, heard, before=rings) == rings + 1
