"""An API with bad habits, on the loopback address: pages by token, storms of 429 with a Retry-After, and now and then a 503.

It keeps what it answered and when, so that the story can say what was really asked of it.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from aiohttp import web

DAWN = datetime(2026, 11, 1, tzinfo=UTC)
HOURS = 6
EVERY = timedelta(seconds=18)
PAGE = 20
PARCELS = [
    {"id": n, "weight": 100 + n % 900, "posted": (DAWN + EVERY * n).isoformat()}
    for n in range(int(timedelta(hours=HOURS) / EVERY))
]
PAGES = len(PARCELS) // PAGE

# By the number of the request: where a storm begins, and which request meets a server that is out of order.
STORMS = (16, 44)
STORM_SECONDS = 0.5
RETRY_AFTER_SECONDS = 1
BROKEN = (8, 34)

OK, TOO_MANY, OUT_OF_ORDER = 200, 429, 503


@dataclass(frozen=True)
class Answer:
    """One answer: when, with which status, and for a page that was given which one."""

    at: float
    status: int
    page: str = ""


@dataclass
class Depot:
    """What the API was asked."""

    url: str = ""
    answers: list[Answer] = field(default_factory=list)
    _calm_at: float = 0.0

    def count(self, status: int) -> int:
        """Count the answers with a status."""
        return sum(each.status == status for each in self.answers)

    def asked_again(self) -> int:
        """Count the pages that were given out more than once, each time beyond the first."""
        given = [each.page for each in self.answers if each.status == OK]
        return len(given) - len(set(given))

    async def answer(self, request: web.Request) -> web.Response:
        """Answer as its mood is."""
        now, number = time.monotonic(), len(self.answers) + 1
        if number in STORMS:
            self._calm_at = now + STORM_SECONDS
        if now < self._calm_at:
            self.answers.append(Answer(now, TOO_MANY))
            return web.json_response({}, status=TOO_MANY, headers={"Retry-After": str(RETRY_AFTER_SECONDS)})
        if number in BROKEN:
            self.answers.append(Answer(now, OUT_OF_ORDER))
            return web.json_response({}, status=OUT_OF_ORDER)
        since, token = request.query["since"], int(request.query.get("token", "0"))
        self.answers.append(Answer(now, OK, f"{since} {token}"))
        return web.json_response(_page(since, request.query["until"], token))


def _page(since: str, until: str, token: int) -> dict[str, object]:
    first, last = (datetime.fromisoformat(each) for each in (since, until))
    found = [each for each in PARCELS if first <= datetime.fromisoformat(str(each["posted"])) < last]
    return {"parcels": found[token : token + PAGE], "next": token + PAGE if token + PAGE < len(found) else None}


@asynccontextmanager
async def serving() -> AsyncIterator[Depot]:
    """Open the API on a free port, as long as the block lasts."""
    depot = Depot()
    app = web.Application()
    app.router.add_get("/parcels", depot.answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        depot.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield depot
    finally:
        await runner.cleanup()
