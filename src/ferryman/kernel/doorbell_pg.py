"""The default doorbell: LISTEN and NOTIFY.

One connection listens and one rings, for the whole process. Each topic has a channel of its own, and a process listens to
those that it has listeners for: one that only creates tasks is not woken by every ring for them, its own least of all. Who
begins to listen looks once when the channel is listened to, because rings may have been missed until then. One more channel
is everybody's, for rings from SQL and by hand.

A transaction with a pending NOTIFY takes a lock of the whole instance when it commits, and holds it while its commit is
flushed: were rings a part of all creates, no two of them could commit together. So the carrier sends merged bundles from its
own connection, without waiting for a flush. They go as plain NOTIFY, which takes no parameters and so stands in no .sql file:
it costs a third less than a prepared statement.

A lonely create need not pay for two trips, though. It may take its ring along (`inside`), if at that moment no other does:
that is what an advisory lock, tried and never waited for, decides in the statement itself. The answer says whether it rang.
Nor need it pay where nobody listens. Who listens to a channel holds its lock in common with all who do; a create that gets that
lock for itself has found nobody, and who comes to listen gets it when that create has committed, and then looks.
Nor need one who creates in a stream ring each time: whoever was rung looks, and goes on looking while there is something. So a
ring that comes close upon one of the same topic is put off: the first create after that moment takes it along, and the carrier
where none comes.
A transaction that a caller lends (`ring_within`) rings whatever others do: who knows when it commits, and who would tell us?

The server keeps notifications in one queue until the slowest of all who listen has read them; somebody who listens and then
stays in a transaction keeps it from being emptied. When it is full, PostgreSQL ends each transaction with a NOTIFY in it at its
commit (decision 46). So a ring travels in a transaction that does something else only while the queue is less than half full,
which is where the server begins to warn. A ring of the carrier's own that is refused is kept and sent again; and it has the
server throw away what all have read, which PostgreSQL does only now and then after a NOTIFY that was taken: a full queue would
stay full. So it would where nobody woke us to read what a transaction had written there before it failed: a connection whose
probe is refused is made anew like any that does not hear, and begins at the end of the queue.

The listening connection needs a direct address (`listen_url`) where the other one may go through PgBouncer.

A payload is a JSON array: who rang, topic, hints. Any other payload, such as an empty one sent by hand or from a
borrowed transaction, tells everybody to look at everything. Own rings that come back are ignored, but they prove that the
listening connection still hears; when nothing has proved it for a while, a probe is sent. A connection that is lost or deaf is
made anew, and then every listener looks once, because rings may have been missed.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import logging
import random
import time
import uuid
from collections.abc import Callable, Iterable
from datetime import timedelta
from functools import cache, lru_cache

from ferryman.kernel import db, errors, telemetry
from ferryman.kernel.doorbell import EVERYTHING, LOG, Bundle, Carrier, Heard, Inside, Local, Rings, hinted, pause, stop
from ferryman.kernel.pool import Line
from ferryman.kernel.timed import timed

RING_WITHIN = db.load("ferryman.kernel", "doorbell/ring_within")
BE_THERE = db.load("ferryman.kernel", "doorbell/be_there")
MAKE_ROOM = db.load("ferryman.kernel", "doorbell/make_room")

# A ring need not survive a crash, so its commit waits for no flush.
UNFLUSHED = {"synchronous_commit": "off"}

# PostgreSQL takes payloads of less than 8000 bytes and names of less than 64.
MAX_PAYLOAD_BYTES = 7999
MAX_NAME_BYTES = 63

# A topic that was rung from inside a transaction is not rung so again for as long: a stream of creates then wakes its listeners
# five hundred times a second and not for each, and who comes alone still rings at once.
PACE_SECONDS = 0.002
# A ring that was put off is taken along within that time, and a little more for the trip; else the stream is over.
LATE_SHARE = 1.5

# What PostgreSQL says to a NOTIFY for which its queue has no room.
QUEUE_FULL = "54000"

PROBE_SECONDS = 60.0
PROBE_TIMEOUT_SECONDS = 5.0
PROBE_TOPIC = ""
PATIENCE = timedelta(seconds=PROBE_TIMEOUT_SECONDS)
WITHIN = ""  # the origin of a ring from within a caller's transaction: nobody takes it for its own


@cache
def channel(schema: str, topic: str = "") -> str:
    """Return the channel of a topic, or everybody's, of the product that lives in `schema`; two in one database do not meet."""
    suffix = f"_{topic}" if topic else ""
    name = f"{schema}_doorbell{suffix}"
    if len(name.encode()) > MAX_NAME_BYTES:
        name = f"doorbell_{hashlib.sha256(schema.encode()).hexdigest()[:32]}{suffix}"
    assert len(name.encode()) <= MAX_NAME_BYTES, f"the name of this topic is too long: {topic}"
    return name


def payload(origin: str, topic: str, hints: Iterable[str]) -> str:
    """Write a ring down; hints that do not fit are left out."""
    text = json.dumps([origin, topic, sorted(hints)], separators=(",", ":"))
    if len(text) <= MAX_PAYLOAD_BYTES:  # ASCII, so that characters are bytes
        return text
    return json.dumps([origin, topic, []], separators=(",", ":"))


# Creates of one process ring for the same few lanes again and again.
_kept = lru_cache(maxsize=256)(payload)


def notify(told: Iterable[tuple[str, str]]) -> str:
    """Write the statements that send payloads, each with its channel."""
    return ";".join(f"""notify "{name.replace('"', '""')}", '{payload.replace("'", "''")}'""" for name, payload in told)


def parse(text: str) -> tuple[str, str, frozenset[str]] | None:
    """Read a ring, or None where it is not one of ours."""
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return None
    match said:
        case [str(origin), str(topic), hints]:
            return origin, topic, hinted(hints)
    return None


async def ring_within(tx: db.Tx, rings: Bundle) -> None:
    """Ring when somebody's transaction commits, and only then; the process that rings hears it like all others."""
    payloads = [payload(WITHIN, topic, hints) for topic, hints in rings.items()]
    await db.many(tx, RING_WITHIN, channels=[channel(tx.schema, topic) for topic in rings], payloads=payloads)


class PostgresDoorbell:
    """Rings through the database that holds the work."""

    def __init__(self, url: str, *, schema: str = db.SCHEMA, listen_url: str | None = None) -> None:
        self.rung = 0
        self.sent = 0
        self.heard = 0
        self.healed = 0
        self._schema = schema
        self._origin = uuid.uuid4().hex
        self._ringing = Line(url, schema=schema, settings=UNFLUSHED, patience=PATIENCE)
        self._listening = Line(listen_url or url, schema=schema, settings=UNFLUSHED, patience=PATIENCE)
        self._carrier = Carrier("postgres", self._send)
        self._local = Local(self._carrier.take)
        # By topic: until when creates put their rings off, what is put off now, and since when the last of it.
        self._quiet: dict[str, float] = {}
        self._late = Rings()
        self._late_since: dict[str, float] = {}
        self._later: asyncio.TimerHandle | None = None
        self._keeper: asyncio.Task[None] | None = None
        # What somebody listens to, or once did, and what of it the server sends us.
        self._wanted: set[str] = set()
        self._listened: set[str] = set()
        self._lost = False
        self._stir = asyncio.Event()  # the connection is lost, or there is more to listen to
        self._echo = asyncio.Event()
        self._tried = asyncio.Event()

    async def open(self) -> None:
        """Try once to listen; whether that worked or not, go on in the background."""
        if self._keeper is None:
            self._local.open()
            self._keeper = asyncio.create_task(self._keep(), name="ferryman doorbell listener")
        await self._tried.wait()

    async def close(self) -> None:
        """Send what was rung, then hang up."""
        self._local.close()
        self._ring_late()
        await self._carrier.close()
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            await stop(keeper)
        self._tried.clear()
        await self._listening.close()
        await self._ringing.close()

    def ring(self, topic: str, hints: Iterable[str] = (), *, inside: Inside | None = None) -> None:
        """Tell whoever listens, here and elsewhere."""
        self.rung += 1
        if inside is None:
            self._local.ring(topic, hints)
            return
        self._local.ring(topic, hints, here=inside.put_off or inside.needless)
        if inside.put_off:
            self._put_off(topic, hints)
        elif inside.needless:
            self._went(topic, inside)

    def _put_off(self, topic: str, hints: Iterable[str]) -> None:
        if not self._local.is_open:
            return
        self._late.add(topic, frozenset(hints))
        self._late_since[topic] = time.monotonic()
        if self._later is None:
            self._later = asyncio.get_running_loop().call_later(LATE_SHARE * PACE_SECONDS, self._ring_late)

    def _went(self, topic: str, inside: Inside) -> None:
        """A transaction has rung, for what was put off before it began as well; or has found that nobody listens."""
        if inside.rung:
            self._quiet[topic] = inside.at + PACE_SECONDS
        if topic in self._late and self._late_since[topic] <= inside.at:
            self._late.drop(topic)
            if not self._late and self._later is not None:
                self._later.cancel()
                self._later = None

    def _ring_late(self) -> None:
        """Ring for what was put off and went with nobody."""
        if self._later is not None:
            self._later.cancel()
            self._later = None
            self._carrier.take(self._late.take())

    def inside(self, topic: str, hints: Iterable[str] = ()) -> Inside | None:
        """Give the ring that a transaction in our database can take along; called in the thread of the loop."""
        now = time.monotonic()
        if now < self._quiet.get(topic, 0.0):
            return Inside(None, None)
        carried = self._late.merged(topic, frozenset(hints))
        return Inside(channel(self._schema, topic), _kept(self._origin, topic, carried), now)

    def listen(self, topic: str, heard: Heard) -> Callable[[], None]:
        """Hear the rings of all processes; called in the thread of the loop."""
        if topic not in self._wanted:
            self._wanted.add(topic)
            self._stir.set()
        return self._local.listen(topic, heard)

    async def _send(self, bundle: Bundle) -> None:
        told = [(channel(self._schema, topic), payload(self._origin, topic, hints)) for topic, hints in bundle.items()]
        await _send(self._ringing, told)
        self.sent += len(told)
        for topic in bundle:
            telemetry.rung("postgres", topic)

    def _hear(self, text: str) -> None:
        match parse(text):
            case (self._origin, _, _):
                self._echo.set()
            case (_, topic, hints):
                if self._local.tell(topic, hints):
                    self.heard += 1
                    telemetry.heard("postgres", topic)
            case None:
                self.heard += 1
                self._local.tell_all()

    async def _keep(self) -> None:
        """Listen for ever."""
        failures, missed = 0, False
        while True:
            try:
                await self._attend()
            except Exception as error:  # noqa: BLE001 - the keeper outlives whatever happens to its connection
                failures, missed = failures + 1, True
                LOG.log(_level(failures), "the doorbell does not hear (%d in a row): %s", failures, error)
                self._tried.set()
                await asyncio.sleep(pause(failures))
                continue
            if missed:
                LOG.info("the doorbell hears again")
                self.healed += 1
                telemetry.healed("postgres")
                self._carrier.hurry()
                self._local.tell_all()
            self._tried.set()
            failures, missed = 0, True
            await self._attended()

    async def _attend(self) -> None:
        """Connect, listen, and make sure that a ring is heard."""
        self._lost = False
        self._stir.clear()
        try:
            await self._listen_to("")
            await self._listen_more()
            await self._probe()
            await self._be_there(self._listened)  # where no ring comes through, nobody is there
        except BaseException:
            await self._listening.close()
            raise

    async def _listen_to(self, topic: str) -> None:
        await self._listening.listen(channel(self._schema, topic), self._hear, lost=self._lose)

    async def _listen_more(self) -> list[str]:
        """Listen to what somebody has come to want, and return its topics."""
        more = sorted(self._wanted - self._listened)
        for topic in more:
            await self._listen_to(topic)
        self._listened.update(more)  # the line listens to them again by itself when it is made anew
        return more

    async def _be_there(self, topics: Iterable[str]) -> None:
        await db.many(self._listening, BE_THERE, channels=[channel(self._schema, topic) for topic in topics])

    def _lose(self) -> None:
        self._lost = True
        self._stir.set()

    async def _attended(self) -> None:
        """Listen to more when somebody wants it; return when the connection is lost or has become deaf."""
        while not self._lost:
            self._echo.clear()
            try:
                if await self._stirred():
                    more = await self._listen_more()
                    await self._be_there(more)
                    for topic in more:
                        self._local.tell(topic, EVERYTHING)
                elif not self._echo.is_set():
                    await self._probe()
            except Exception as error:  # noqa: BLE001 - however it failed, it is made anew
                LOG.debug("the doorbell's connection is dead: %s", error)
                await self._listening.close()
                return

    async def _stirred(self) -> bool:
        """Wait until something is to be done, for as long as nothing need be probed."""
        with contextlib.suppress(TimeoutError):
            await timed(self._stir.wait(), PROBE_SECONDS * random.uniform(0.8, 1.2))
        stirred = self._stir.is_set()
        self._stir.clear()
        return stirred and not self._lost

    async def _probe(self) -> None:
        """Ring ourselves over the listening connection and wait for the echo."""
        self._echo.clear()
        probe = payload(self._origin, PROBE_TOPIC, EVERYTHING)
        try:
            async with asyncio.timeout(PROBE_TIMEOUT_SECONDS):
                await _send(self._listening, [(channel(self._schema), probe)])
                await self._echo.wait()
        except TimeoutError:
            raise errors.DatabaseUnavailable(
                "No notification comes through this address. Behind PgBouncer in transaction mode, LISTEN needs a direct one."
            ) from None


async def _send(line: Line, told: Iterable[tuple[str, str]]) -> None:
    try:
        await line.execute(notify(told))
    except Exception as error:
        if db.sqlstate(error) == QUEUE_FULL:
            await db.many(line, MAKE_ROOM)  # for the next try
        raise


def _level(failures: int) -> int:
    """Tell of the first failure in a row; the rest is for those who look closely."""
    return logging.WARNING if failures == 1 else logging.DEBUG
