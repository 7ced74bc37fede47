"""A stranger at the wire of a doorbell: it rings for whatever it likes, well or badly."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

from nats.aio.client import Client

from ferryman.kernel import doorbell_nats, doorbell_pg
from ferryman.kernel.nats_flush import flush_all
from ferryman.kernel.pool import Line
from tests.conformance.ear import Ear

Say = Callable[[str, bytes], Awaitable[object]]
Flood = Callable[[str, int], Awaitable[object]]


class Forger:
    """Sends what no process of ours has sent."""

    def __init__(self, say: Say, flood: Flood, *, whole: bool) -> None:
        """Speak by `say`; where rings are written as a `whole`, they bear an origin and their topic beside the hints."""
        self.say = say
        self.flood = flood  # so many rings at once, for one lane that is not there
        self._whole = whole

    async def ring(self, topic: str, *hints: object) -> None:
        """Ring for these, in the form of ours."""
        await self.hint(topic, list(hints))

    async def hint(self, topic: str, hints: object) -> None:
        """Ring with something in the place of the hints."""
        await self.say(topic, json.dumps(["a stranger", topic, hints] if self._whole else hints).encode())


@asynccontextmanager
async def at_postgres(url: str, schema: str) -> AsyncIterator[Forger]:
    line = Line(url)

    async def say(topic: str, text: bytes) -> None:
        await line.fetch("select pg_notify($1, $2)", doorbell_pg.channel(schema, topic), text.decode())

    async def flood(topic: str, count: int) -> None:
        # Of equal ones in a transaction PostgreSQL sends one.
        await line.fetch(
            "select count(pg_notify($1, json_build_array(n::text, $2::text, array[$3::text])::text))"
            " from generate_series(1, $4) as n",
            doorbell_pg.channel(schema, topic), topic, lane("default", "nobody"), count,
        )  # fmt: skip

    yield Forger(say, flood, whole=True)
    await line.close()


@asynccontextmanager
async def at_nats(url: str, schema: str) -> AsyncIterator[Forger]:
    client = Client()
    await client.connect(url)

    async def say(topic: str, text: bytes) -> None:
        await client.publish(f"{doorbell_nats.PREFIX}.{schema}.{topic}", text)
        await flush_all(client)

    async def flood(topic: str, count: int) -> None:
        for _ in range(count):
            await client.publish(
                f"{doorbell_nats.PREFIX}.{schema}.{topic}", json.dumps([lane("default", "nobody")]).encode()
            )
        await flush_all(client)

    yield Forger(say, flood, whole=False)
    await client.close()


def lane(queue: str, tenant: str) -> str:
    """Write how a lane is named, whatever its parts are."""
    return f"{queue}\x1f{tenant}"


async def forge(forger: Forger, ears: Sequence[Ear], rings: Sequence[Sequence[str]]) -> None:
    """Ring at every topic, with each of these, until that was heard: a topic may have been wanted for a moment only."""
    for ear in ears:
        while missing := [each for each in rings if frozenset(each) not in ear.heard]:
            for each in missing:
                await forger.ring(ear.topic, *each)
