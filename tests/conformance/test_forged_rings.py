"""K2, K12, R6: whoever reaches the wire of a doorbell can ring. A ring only says "look": it shows nothing and does nothing to
what it names, and whatever it is made of, everybody who hears it goes on.
"""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Sequence
from typing import Any, NamedTuple
from uuid import uuid4

import pytest

from ferryman import Ferryman, Handle, Turn
from ferryman.app import wiring
from ferryman.app.flows import Flows
from ferryman.kernel import invariants
from ferryman.kernel.doorbell import MAX_HINT_CHARACTERS, MAX_HINTS
from ferryman.kernel.doorbell_nats import NatsDoorbell
from ferryman.kernel.doorbell_pg import PostgresDoorbell
from ferryman.tasks.work.crew import TaskCrew
from ferryman.testing import Cluster, NatsServer
from tests.conformance.ear import Ear, Make, opened
from tests.conformance.forger import Forger, at_nats, at_postgres, forge, lane
from tests.patience import PATIENCE_SECONDS

pytestmark = pytest.mark.parametrize("name", ["postgres", "nats"])

WORKER = {"poll": "100ms", "lease": "60s", "watchdog_interval_seconds": 0.5, "lease_sweep_seconds": 0.2}
FLOOD = 100_000


@pytest.fixture
async def forger(name: str, cluster: Cluster, nats: NatsServer, schema: str) -> AsyncIterator[Forger]:
    async with (
        at_postgres(cluster.address("postgres"), schema) if name == "postgres" else at_nats(nats.url, schema) as it
    ):
        yield it


# What cannot be read


@pytest.mark.contract("K2")
@pytest.mark.parametrize(
    "text",
    ["", "look", "null", "5", "{}", '"abc"', "[1, 2, 3, 4]", '["someone", "ready", 5]', '["someone", ', "[" * 7999, "9" * 7999],
    ids=["nothing", "a word", "null", "a number", "an object", "a text", "numbers", "no hints", "cut", "deep", "huge"],
)  # fmt: skip
async def test_a_payload_of_another_make_means_look_at_everything(
    make: Make, name: str, forger: Forger, text: str
) -> None:
    bell = make(name)
    ear = Ear(bell)
    async with opened(bell):
        await forger.say("ready", text.encode())
        await ear.until(lambda ear: bool(ear.heard))

    assert ear.heard == [frozenset()]


UNHEARD_OF: Sequence[Any] = (
    5, "mail", {"mail": 1}, ["mail", 5], ["mail", None], [["mail"]], ["a\0b"], ["\ud800"], ["x" * (MAX_HINT_CHARACTERS + 1)],
    [str(n) for n in range(MAX_HINTS + 1)],
)  # fmt: skip


@pytest.mark.contract("K2")
@pytest.mark.parametrize("hints", UNHEARD_OF, ids=lambda hints: json.dumps(hints)[:16])
async def test_hints_that_nobody_of_ours_would_write_mean_look_at_everything(
    make: Make, name: str, forger: Forger, hints: object
) -> None:
    bell = make(name)
    ear = Ear(bell)
    async with opened(bell):
        await forger.hint("ready", hints)
        await forger.ring("ready", lane("default", "acme"))
        await ear.until(lambda ear: bool(ear.hints))

    assert ear.heard == [frozenset(), frozenset({lane("default", "acme")})]


# What can be read, and names what is not there or not one's own


class Stage(NamedTuple):
    """Who asks, who works, what runs there, and what lets it end."""

    client: Ferryman
    works: Ferryman
    begun: "asyncio.Queue[str]"
    go: asyncio.Event


@pytest.fixture
async def stage(database_url: str, make: Make, name: str) -> AsyncIterator[Stage]:
    works, client = (Ferryman(database_url, doorbell=make(name), worker=WORKER) for _ in range(2))
    begun: asyncio.Queue[str] = asyncio.Queue()
    go = asyncio.Event()

    @works.task
    async def double(n: int) -> int:
        return 2 * n

    @works.task
    async def held(word: str) -> str:
        begun.put_nowait(word)
        await go.wait()
        return word

    @works.tool
    async def look_up() -> str:
        begun.put_nowait("looks up")
        await go.wait()
        return "found"

    @works.agent
    async def clerk(turn: Turn) -> str:
        return str(await turn.call_tool("look_up"))

    @works.agent
    async def chief(turn: Turn) -> str:
        task = {"target_strategy": "new", "target_ref": "clerk", "instruction": "look it up"}
        return str((await turn.fork_join([task]))["status"])

    async with works, client:
        yield Stage(client, works, begun, go)
        async with works.database.session() as tx:
            assert await invariants.check(tx, wiring.invariants()) == []


def complaints(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def ears_of(app: Ferryman) -> list[Ear]:
    """Listen to every topic that somebody of an app listens to; what an ear has heard, they were told before."""
    bell = app.doorbell
    assert isinstance(bell, PostgresDoorbell | NatsDoorbell)
    topics = sorted(topic for topic, listeners in bell._local._listeners.items() if listeners)
    assert len(topics) > 2
    return [Ear(bell, topic) for topic in topics]


async def tasks_of(app: Ferryman, tenant: str) -> list[dict[str, Any]]:
    async with app.database.session() as tx:
        rows = await tx.fetch("select * from ferryman.tasks where tenant = $1 order by id", tenant)
    return [dict(row) for row in rows]  # type: ignore[call-overload]  # a record has keys


async def watched(handle: Handle) -> list[str]:
    return [word.state.value async for word in handle.watch()]


@pytest.mark.contract("K2", "K12", "R6")
async def test_rings_for_what_is_not_there_or_anothers_show_nothing_and_move_nothing(
    stage: Stage, forger: Forger, caplog: pytest.LogCaptureFixture
) -> None:
    """Every topic that somebody here listens to is rung, with whatever such rings can name."""
    client, works = stage.client, stage.works
    theirs = [await client.of("zeta").tasks.create("double", n=n, queue="elsewhere") for n in range(2)]
    await theirs[0].cancel()
    untouched = await tasks_of(client, "zeta")
    async with asyncio.timeout(PATIENCE_SECONDS), works.worker():
        mine = await client.tasks.create("held", word="mine")
        await client.agents.create("ada", profile="chief")
        turn = await client.agents.send("ada", "begin")
        assert {await stage.begun.get(), await stage.begun.get()} == {"mine", "looks up"}
        waiting = [asyncio.ensure_future(each) for each in (mine.result(), turn.result(), watched(mine))]
        [batch] = await client.batches.list()
        rings = [
            [str(uuid4())], [str(mine.id), str(turn.id), str(batch.id)], [str(each.id) for each in theirs],
            [lane("default", "zeta"), lane("elsewhere", "zeta"), lane("nowhere", "default")], ["agents:nobody", "nobody"], [],
        ]  # fmt: skip
        for app in (client, works):
            await forge(forger, ears_of(app), rings)

        # Work goes on, for those too who were rung.
        assert await (await client.tasks.create("double", n=4)).result() == 8
        assert [each.done() for each in waiting] == [False] * 3
        stage.go.set()
        assert await asyncio.gather(*waiting) == ["mine", "success", ["running", "succeeded"]]

    assert stage.begun.empty()
    assert {(row["attempt"], row["epoch"]) for row in await tasks_of(client, "default")} == {(1, 1)}
    assert await tasks_of(client, "zeta") == untouched
    assert complaints(caplog) == []


@pytest.mark.contract("K2", "R6")
async def test_no_ring_keeps_a_worker_from_its_work(
    stage: Stage, forger: Forger, caplog: pytest.LogCaptureFixture
) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS), stage.works.worker():
        assert await (await stage.client.tasks.create("double", n=1)).result() == 2
        ears = ears_of(stage.works)
        for ear in ears:
            for hints in UNHEARD_OF:
                await forger.hint(ear.topic, hints)
            for tenant in ("a\0b", "\ud800", "", "x" * 400):
                await forger.ring(ear.topic, lane("default", tenant), tenant)
            await forger.say(ear.topic, b"[" * 7999)
        await forge(forger, ears, [["the last"]])

        assert await (await stage.client.tasks.create("double", n=4)).result() == 8
    assert complaints(caplog) == []


# Too many


@pytest.mark.contract("K2", "R6")
async def test_a_flood_of_rings_is_a_few_looks(stage: Stage, forger: Forger, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = {"turn": 0, "learn": 0}

    def counted(kind: type, name: str) -> None:
        real = getattr(kind, name)

        async def look(*args: Any) -> Any:
            looks[name] += 1
            return await real(*args)

        monkeypatch.setattr(kind, name, look)

    counted(TaskCrew, "turn")
    counted(Flows, "learn")
    async with asyncio.timeout(PATIENCE_SECONDS), stage.works.worker():
        assert await (await stage.client.tasks.create("double", n=1)).result() == 2
        ears = [Ear(stage.works.doorbell, topic) for topic in ("ready", "queues")]
        for ear in ears:
            await forger.flood(ear.topic, FLOOD // 2)
        for ear in ears:
            await ear.until(lambda ear: len(ear.heard) >= FLOOD // 2)

        assert await (await stage.client.tasks.create("double", n=4)).result() == 8
    assert max(looks.values()) < FLOOD / 10
