"""A NATS server with JetStream, as a relay needs it: in order, acknowledged, each message known by its id.

A set goes out without waiting for each answer. So that a message which is refused does not let those behind it pass, each names
the one before it (Nats-Expected-Last-Msg-Id), and the server takes it only behind that one. Where somebody else writes to
the stream too that cannot hold; then messages go one by one. A message that the server drops as a duplicate counts as published
only if the stored one is the same event (duplicate.py).

The client does not reconnect by itself: what it had still to write would come out of its buffer later, behind the repeats. A
connection that failed is given up with all it held.
"""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import json
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from ferryman.kernel import errors, guest, telemetry
from ferryman.kernel.farewell import hang_up
from ferryman.kernel.nats_flush import flush_all
from ferryman.relays.rules import subject
from ferryman.relays.work import duplicate
from ferryman.relays.work.duplicate import Found

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.aio.msg import Msg
    from nats.js import JetStreamContext
    from nats.js.api import StreamConfig

log = telemetry.logger("relays")

ORIGIN = "ferryman-origin"
MSG_ID = "Nats-Msg-Id"
STREAM = "Nats-Expected-Stream"
AFTER = "Nats-Expected-Last-Msg-Id"
_OUT_OF_ORDER = 10070
_ROOM_FOR_HEADERS = 1024


class Message(NamedTuple):
    """What goes out for one event; a short form for a server that takes only short ones."""

    id: str
    subject: str
    body: bytes
    short: bytes
    volatile: bool = False


class BrokerAway(Exception):
    """The NATS server cannot be reached, or did not take what was sent."""


class Untaken(Exception):
    """The server refuses a message."""

    def __init__(self, description: str, code: int) -> None:
        """Keep the server's own code."""
        super().__init__(description)
        self.code = code


class Broker:
    """One connection to a NATS server."""

    def __init__(
        self, url: str, *, stream: str, prefix: str, kept: timedelta, repeats: timedelta, patience: timedelta
    ) -> None:
        """Remember where it is; `patience` is how long it may take to answer."""
        _require_client()
        self._servers = [part.strip() for part in url.split(",")]
        self._stream = stream
        self._kept_subject = subject.kept(prefix)
        self._kept = kept
        self._repeats = min(repeats, kept)
        self._patience = patience.total_seconds()
        self._client: Client | None = None
        self._js: JetStreamContext | None = None
        self._inbox = ""
        self._numbers = itertools.count()
        self._waiting: dict[str, asyncio.Future[int | None]] = {}

    @property
    def there(self) -> bool:
        """Whether there is a connection."""
        return self._client is not None and self._client.is_connected

    async def open(self, origin: str) -> None:
        """Connect, and make sure of the stream: it keeps our events, and nobody else's under the same ids."""
        await self.close()
        try:
            async with asyncio.timeout(self._patience):
                self._client = await self._connect()
                self._inbox = self._client.new_inbox()
                await self._client.subscribe(f"{self._inbox}.*", cb=self._hear)
                self._js = self._client.jetstream(timeout=self._patience)
                await self._ensure(self._js, origin)
        except errors.RelayRefused:
            await self.close()
            raise
        except Exception as error:
            await self.close()
            raise BrokerAway(errors.said(error)) from error

    async def _connect(self) -> Client:
        from nats.aio.client import Client

        client = Client()
        try:
            await client.connect(
                servers=self._servers,
                name="ferryman relay",
                allow_reconnect=False,
                connect_timeout=max(1, round(self._patience)),
                error_cb=_heard,
            )
        except BaseException:
            await hang_up(client)
            raise
        return client

    async def _ensure(self, js: JetStreamContext, origin: str) -> None:
        from nats.js.api import StorageType, StreamConfig
        from nats.js.errors import BadRequestError, NotFoundError

        try:
            config = (await js.stream_info(self._stream)).config
        except NotFoundError:
            try:
                await js.add_stream(
                    StreamConfig(
                        name=self._stream,
                        subjects=[self._kept_subject],
                        max_age=self._kept.total_seconds(),
                        duplicate_window=self._repeats.total_seconds(),
                        storage=StorageType.FILE,
                        metadata={ORIGIN: origin},
                    )
                )
            except BadRequestError as error:
                raise errors.RelayRefused(f"The stream {self._stream} cannot be made: {error.description}.") from error
            return
        await self._check(js, config, origin)

    async def _check(self, js: JetStreamContext, config: StreamConfig, origin: str) -> None:
        """Refuse a stream that another log is published to: its readers could not tell one order of events from the other."""
        theirs = (config.metadata or {}).get(ORIGIN)
        if theirs not in (None, origin):
            raise errors.RelayRefused(f"The stream {self._stream} keeps the log of another database.", origin=theirs)
        if not any(subject.covers(pattern, self._kept_subject) for pattern in config.subjects or ()):
            raise errors.RelayRefused(f"The stream {self._stream} does not keep {self._kept_subject}.")
        if theirs is None:
            marked = {**(config.metadata or {}), ORIGIN: origin}
            await js.update_stream(dataclasses.replace(config, metadata=marked))

    async def publish(self, messages: Sequence[Message]) -> None:
        """Return when the server has all of them, in order; what it has already it drops by their ids."""
        try:
            if await self._in_order(messages):
                return
            for message in messages:
                if not message.volatile:  # those are sent already, and nobody keeps them
                    dropped = await self.store(message)
                    if dropped:
                        await duplicate.settle(self, [(message, dropped)])
        except Exception as error:
            await self.close()
            raise BrokerAway(errors.said(error)) from error

    async def _in_order(self, messages: Sequence[Message]) -> bool:
        """Send a set at once; false when another's message stands between ours."""
        answers: list[asyncio.Future[int | None]] = []
        before: str | None = None
        for message in messages:
            answer = await self._send(message, after=before)
            if not message.volatile:
                answers.append(answer)
                before = message.id
        told = await self._answered(answers)
        if not any(told):
            return True
        failures = [each for each in told if isinstance(each, BaseException)]
        if failures and all(isinstance(each, Untaken) and each.code == _OUT_OF_ORDER for each in failures):
            return False
        if failures:
            raise failures[0]
        kept = [message for message in messages if not message.volatile]
        await duplicate.settle(
            self, [(message, each) for message, each in zip(kept, told, strict=True) if isinstance(each, int)]
        )
        return True

    async def store(self, message: Message) -> int | None:
        """Publish one message; return the sequence of the stored one if the server dropped it as a duplicate."""
        [told] = await self._answered([await self._send(message)])
        if isinstance(told, BaseException):
            raise told
        return told

    async def find(self, sequence: int) -> Found | None:
        """Fetch a message of the stream; None if it is not there any more."""
        from nats.js.errors import NotFoundError

        if self._js is None:
            raise BrokerAway("not connected")
        try:
            found = await self._js.get_msg(self._stream, sequence)
        except NotFoundError:
            return None
        return Found((found.headers or {}).get(MSG_ID), found.data or b"")

    async def removes_messages(self) -> bool:
        """Return whether the stream removes consumed messages, or older ones of a subject; its owner may change that."""
        from nats.js.api import RetentionPolicy

        if self._js is None:
            raise BrokerAway("not connected")
        config = (await self._js.stream_info(self._stream)).config
        return config.retention not in (None, RetentionPolicy.LIMITS) or (config.max_msgs_per_subject or 0) > 0

    async def _send(self, message: Message, *, after: str | None = None) -> asyncio.Future[int | None]:
        """Send one; the answer, a sequence for a duplicate, comes later, for what is volatile none."""
        if self._client is None:
            raise BrokerAway("not connected")
        answer: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
        headers = {MSG_ID: message.id}
        reply = ""
        if not message.volatile:
            headers |= {STREAM: self._stream} | ({AFTER: after} if after is not None else {})
            reply = f"{self._inbox}.{next(self._numbers)}"
            self._waiting[reply] = answer
        await self._write(self._client, message, reply, headers)
        return answer

    async def _write(self, client: Client, message: Message, reply: str, headers: dict[str, str]) -> None:
        """Put a message into the client's buffer, which has no room where the server stands still and reads nothing.

        The client waits for room without end, and keeps a cancellation to itself: whoever ends the wait looks whether it was
        ended, and whoever ends this relay is heard here.
        """
        async with asyncio.timeout(self._patience) as waiting:
            await client.publish(message.subject, self._fit(message), reply=reply, headers=headers)
        if waiting.expired():
            raise BrokerAway(f"the server took nothing for {self._patience:g} s")
        if guest.cancelled():
            raise asyncio.CancelledError

    async def _answered(self, answers: Sequence[asyncio.Future[int | None]]) -> list[int | BaseException | None]:
        """Wait for the answers; a message that the server refused has its error instead."""
        assert self._client is not None
        async with asyncio.timeout(self._patience):
            if answers:
                return await asyncio.gather(*answers, return_exceptions=True)
            await flush_all(self._client)
            return []

    async def _hear(self, message: Msg) -> None:
        """Take an answer of the server. By hand: the client's own way raises at a refusal, and nobody is told."""
        answer = self._waiting.pop(message.subject, None)
        if answer is None or answer.done():
            return
        try:
            told = json.loads(message.data or b"{}")
            refusal = told.get("error")
        except ValueError:
            refusal = {"description": "an answer that cannot be read"}
        if (message.headers or {}).get("Status") == "503":
            refusal = {"description": "no stream takes this subject"}
        if refusal is None:
            answer.set_result(told["seq"] if told.get("duplicate") else None)
        else:
            answer.set_exception(Untaken(refusal.get("description", "refused"), refusal.get("err_code", 0)))

    def _fit(self, message: Message) -> bytes:
        """A message that the server never takes would stop all behind it (K25)."""
        assert self._client is not None
        fits = len(message.body) + _ROOM_FOR_HEADERS <= self._client.max_payload
        return message.body if fits else message.short

    async def close(self) -> None:
        """Give up the connection, with whatever it had still to write."""
        client, self._client, self._js = self._client, None, None
        waiting, self._waiting = self._waiting, {}
        for answer in waiting.values():
            answer.cancel()
        if client is not None:
            await hang_up(client)


async def _heard(error: Exception) -> None:
    log.debug("the relay has trouble with NATS: %s", error)


def _require_client() -> None:
    try:
        import nats  # noqa: F401 - only whether it is there
    except ImportError:
        raise errors.SettingsInvalid(
            "The relay to NATS needs the package nats-py: pip install 'ferryman[nats]'.", setting="relays.nats"
        ) from None
