"""Checks messages that the NATS server reports as duplicates (K10).

JetStream drops a message whose id it saw within the duplicate window, and answers with the sequence of the message it stored.
Usually that message is the same event: the process that published it died before it stored the place of the relay.

But another program may have used the id, or the stored message may have been deleted. Then the event is not in the stream, and
the relay publishes it again. The id of that message is the event's id and the sequence of the message in its way, so that a
repeat of this repair is dropped too. The body carries the event's own id in both cases.

A stream may also remove messages itself: after a consumer has acknowledged them, or when newer ones of the same subject
arrive. There a missing message counts as published. Published again, it would follow newer events, or be processed twice.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from ferryman.kernel import telemetry

if TYPE_CHECKING:
    from ferryman.relays.work.broker import Message

log = telemetry.logger("relays")

TRIES: Final = 3


class Found(NamedTuple):
    """A message of the stream."""

    id: str | None
    body: bytes


class Stream(Protocol):
    """What the check needs of the broker."""

    async def find(self, sequence: int) -> Found | None:
        """Fetch a message of the stream; None if it is not there any more."""

    async def removes_messages(self) -> bool:
        """Return whether the stream removes consumed messages, or older ones of a subject."""

    async def store(self, message: Message) -> int | None:
        """Publish one message; return the sequence of the stored one if the server dropped it as a duplicate."""


class Occupied(Exception):
    """Other messages have every id under which this event could be published."""


async def settle(stream: Stream, dropped: Sequence[tuple[Message, int]]) -> None:
    """Make sure that each of these events is in the stream; each comes with the sequence that the server named."""
    there = await asyncio.gather(*(_is_stored(stream, message, sequence) for message, sequence in dropped))
    for (message, sequence), stored in zip(dropped, there, strict=True):
        if not stored:
            await _publish_again(stream, message, sequence)


async def _publish_again(stream: Stream, message: Message, sequence: int) -> None:
    for _ in range(TRIES):
        again = message._replace(id=f"{message.id}.{sequence}")
        log.warning(
            "NATS dropped an event as a duplicate of another message, publishing it again",
            extra={"event": message.id, "sequence": sequence, "as": again.id},
        )
        dropped = await stream.store(again)
        if dropped is None or await _is_stored(stream, again, dropped):
            return
        sequence = dropped
    raise Occupied(f"The stream holds other messages under the id of the event {message.id}.")


async def _is_stored(stream: Stream, message: Message, sequence: int) -> bool:
    found = await stream.find(sequence)
    if found is None:
        return await stream.removes_messages()
    if found.id != message.id:
        return False
    # The bodies may differ where processes of two versions publish, or where one event was too large for a server.
    return found.body in (message.body, message.short) or _event_of(found.body) == _event_of(message.short)


def _event_of(body: bytes) -> Any:
    """Return the identity that an envelope carries; an object that equals no other if there is none."""
    try:
        return json.loads(body)["event_id"]
    except (ValueError, TypeError, KeyError):
        return object()
