"""What was read of tokens and sessions a moment ago, so that a request costs no round trip.

An answer is kept for some seconds, never past the end of what it is about, and all answers are dropped when the doorbell
says that a token was made or revoked, or a session ended. So a revoked token is refused within a moment, and where rings
are lost within the time that answers are kept. An answer that was on its way when the bell rang is given to who waits for
it, and not kept.

Who asks for the same thing at the same time shares one read. What nobody knows is remembered too, so that one wrong token
does not cost a round trip each time; the oldest answers leave when there are too many.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import Any, Final, NamedTuple

from ferryman.access import intake, rules
from ferryman.access.model import Grant
from ferryman.kernel.db import Tx
from ferryman.kernel.doorbell import Doorbell

TOPIC: Final = "access"
MOST: Final = 10_000
STANDING: Final = b"standing"


class _Answer(NamedTuple):
    value: Any
    until: float


class Known:
    """Answers about tokens and sessions, kept for a moment."""

    def __init__(
        self, session: Callable[[], AbstractAsyncContextManager[Tx]], doorbell: Doorbell, *, kept: timedelta
    ) -> None:
        """Read by sessions of the database; forget when the doorbell rings."""
        self._session = session
        self._kept = kept.total_seconds()
        self._answers: dict[bytes, _Answer] = {}
        self._asking: dict[bytes, asyncio.Task[Any]] = {}
        self._heard = 0
        self.close = doorbell.listen(TOPIC, lambda _hints: self.forget())

    def forget(self) -> None:
        """Ask anew for everything."""
        self._heard += 1
        self._answers.clear()
        self._asking.clear()

    async def token(self, text: str) -> Grant | None:
        """Return what a token allows."""
        if rules.id_of(text) is None:
            return None
        return await self._of(rules.digest(text), lambda tx: intake.of_token(tx, text))  # type: ignore[no-any-return]

    async def session(self, secret: str) -> Grant | None:
        """Return what a session allows."""
        if not rules.is_session(secret):
            return None
        return await self._of(rules.digest(secret), lambda tx: intake.of_session(tx, secret))  # type: ignore[no-any-return]

    async def closed(self) -> bool:
        """Say whether there are tokens, so that everybody needs one. One that has expired counts: time opens no doors."""
        return bool((await self._of(STANDING, intake.exist))[0])

    def seen(self, secret: str) -> bool:
        """Say whether a token or a session was good when it was last looked at."""
        answer = self._answers.get(rules.digest(secret))
        return answer is not None and answer.value is not None

    async def _of(self, key: bytes, read: Callable[[Tx], Awaitable[Any]]) -> Any:
        answer = self._answers.get(key)
        if answer is not None and answer.until > time.monotonic():
            return answer.value
        asking = self._asking.get(key)
        if asking is None:
            asking = self._asking[key] = asyncio.create_task(self._ask(key, read))
            asking.add_done_callback(lambda done: self._done(key, done))
        return await asyncio.shield(asking)

    async def _ask(self, key: bytes, read: Callable[[Tx], Awaitable[Any]]) -> Any:
        heard = self._heard
        async with self._session() as tx:
            value = await read(tx)
        if heard == self._heard:
            self._keep(key, value)
        return value

    def _keep(self, key: bytes, value: Any) -> None:
        left = value.left if isinstance(value, Grant) else None
        kept = self._kept if left is None else min(self._kept, left.total_seconds())
        self._answers.pop(key, None)
        while len(self._answers) >= MOST:
            del self._answers[next(iter(self._answers))]
        self._answers[key] = _Answer(value, time.monotonic() + kept)

    def _done(self, key: bytes, done: asyncio.Task[Any]) -> None:
        if self._asking.get(key) is done:
            del self._asking[key]
        if not done.cancelled():
            done.exception()  # whoever waited was told; where nobody waits any more nobody needs to know
