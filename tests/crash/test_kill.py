"""R1: SIGKILL at every named point between claim and settle, in real processes, each point hit several times."""

import asyncio
import os
import signal
from collections import Counter
from pathlib import Path

import pytest

from ferryman.kernel import faults
from ferryman.tasks.work.scheduler import SET
from tests.crash import cargo, judge, test_batches, test_commands, test_relays, test_turns, test_watchdog
from tests.crash.conftest import Launch
from tests.crash.yard import RELAY_POINTS, WATCHDOG_POINTS, Ship, keep_house, until
from tests.ingest.test_crash import ROUNDS as INGEST_ROUNDS
from tests.spread import KILLS

# A set of sleeps or births holds at most those of the eight that a worker runs at once: enough for each life to have one.
VOYAGES = 8 * (KILLS - 1) + 4

# After the lease and a sweep, on a busy machine; how long a process takes to begin its work there is left out.

# The fault of each life, chosen so that work is in the worker's hands when it strikes.
WORKER_POINTS = {
    "claim.sent": "claim.sent=kill@1",
    "claim.committed": "claim.committed=kill@1",
    "handler.started": "handler.started=kill@3",
    "handler.returned": "handler.returned=kill@3",
    "settle.before": "settle.before=kill@1",
    "settle.inside": "settle.inside=kill@1",
    "settle.committed": "settle.committed=kill@1",
    "step.before": "step.before=kill@2",
    "step.committed": "step.committed=kill@2",
    "wait.before": "wait.before=kill@1",
    "wait.committed": "wait.committed=kill@1",
    "park.committed": "park.committed=kill@1",
    "renew.before": "renew.before=kill@1",
    "drain.begun": "drain.begun=kill@1",
}
# Whoever dies at one of these has begun nothing yet, or may have settled all of it: nobody need begin anything anew.
NOTHING_BEGUN = ("claim.sent", "claim.committed", "settle.committed")
DURABLE_POINTS = ("step.before", "step.committed", "wait.before", "wait.committed", "park.committed")
BIRTH_POINTS = {"birth.inside": "birth.inside=kill@1", "birth.committed": "birth.committed=kill@1"}
PRODUCER_POINTS = {"create.before": "create.before=kill@4", "create.committed": "create.committed=kill@4"}
SCHEDULER_POINTS = {
    "fire.held": "fire.held=kill@1",
    "fire.written": "fire.written=kill@1",
    "fire.committed": "fire.committed=kill@1",
}

# What lies between claim and settle in each domain, and the death of who was to bring its work back or end it; those with
# steps pass two more, and each has some of its own.
PUMP = {"claim.committed", "settle.before"}
HANDLED = PUMP | {"handler.started", "handler.returned", "settle.inside", "settle.committed"}
WATCHED = {*WATCHDOG_POINTS}
DOMAINS = {
    "tasks": (
        {*WORKER_POINTS, *BIRTH_POINTS, *WATCHDOG_POINTS},
        HANDLED | WATCHED | {"claim.sent", "renew.before", *DURABLE_POINTS, *BIRTH_POINTS},
    ),
    "commands": (
        {*test_commands.LIVES, *test_watchdog.killed("commands")},
        HANDLED | WATCHED | {"claim.sent", "renew.before", "command.processed", "async_task.settled"},
    ),
    "turns": (
        {*test_turns.ALONE, *test_watchdog.killed("turns")},
        HANDLED | WATCHED | {"claim.sent", "step.before", "step.committed", "renew.before"},
    ),
    "batches": (
        {*test_batches.POINTS, *test_watchdog.killed("batches")},
        WATCHED | {"batch.dispatched", "batch.sent", "batch.closed"},
    ),
    "ingestion": (
        {plan.partition("=")[0] for lives in INGEST_ROUNDS.values() for plan in lives}
        | test_watchdog.killed("ingestion"),
        PUMP
        | WATCHED
        | {"claim.sent", "renew.before"}
        | {name for name in faults.REGISTRY if name.startswith("ingest.")},
    ),
    "relays": ({*RELAY_POINTS}, {name for name in faults.REGISTRY if name.startswith(("relay.", "webhook."))}),
    "deliveries": ({*test_relays.SENDER_POINTS}, PUMP | {"claim.sent", "webhook.called"}),
    "schedules": ({*SCHEDULER_POINTS}, {name for name in faults.REGISTRY if name.startswith("fire.")}),
}
# No rule of the watchdog brings their work back: a lapsed lease of theirs is taken by whoever claims next, and what is due is
# fired by any worker. The rules that they have end what is too old, forget it, or shorten a lease, by the way that all go.
UNWATCHED = {"relays", "deliveries", "schedules"}


def test_every_fault_point_has_its_cell() -> None:
    ours = {*PRODUCER_POINTS, *test_commands.SENDER_POINTS}
    assert ours.union(*(cells for cells, _ in DOMAINS.values())) == set(faults.REGISTRY)


@pytest.mark.parametrize("domain", DOMAINS)
def test_every_domain_is_killed_between_claim_and_settle(domain: str) -> None:
    cells, points = DOMAINS[domain]
    assert points <= cells
    assert (points >= WATCHED) == (domain not in UNWATCHED)


@pytest.mark.contract("R1", "K5", "T7")
@pytest.mark.parametrize("point", WORKER_POINTS)
async def test_work_survives_the_death_of_its_worker(
    point: str, database_url: str, ship: Launch, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    acknowledged = await load(point, database_url, gate)
    worker = ship(database_url, lives=[*[WORKER_POINTS[point]] * KILLS, ""]).start()

    for life in range(1, KILLS + 1 if point == "drain.begun" else 1):
        begun = await worker.seen("working", count=life)
        await worker.seen("start", pid=begun["pid"])
        os.kill(begun["pid"], signal.SIGTERM)
    await worker.seen("died", count=KILLS)
    gate.touch()
    await judge.all_ended(database_url)

    assert_killed(worker, point, KILLS)
    await judge.judge(database_url, acknowledged, worker.lines())
    assert await cargo.broken(database_url) == []
    # How soon, chaos measures (R3).
    assert judge.recoveries(worker.lines()) or point in NOTHING_BEGUN
    if point == "settle.inside":
        assert await cargo.debts(database_url) == [1] * len(acknowledged)
    if point in DURABLE_POINTS:
        await judge.remembered(database_url, acknowledged, worker.lines())


@pytest.mark.contract("R1", "K5", "T7", "T19")
@pytest.mark.parametrize("plain", [True, False], ids=["plain", "with keys"])
@pytest.mark.parametrize("point", BIRTH_POINTS)
async def test_children_are_born_once_although_the_worker_of_their_parents_dies(
    point: str, plain: bool, database_url: str, ship: Launch
) -> None:
    acknowledged = await cargo.load(database_url, VOYAGES, name="voyage", plain=plain)
    worker = ship(database_url, lives=[*[BIRTH_POINTS[point]] * KILLS, ""]).start()

    await judge.all_ended(database_url)

    assert_killed(worker, point, KILLS)
    await judge.judge(database_url, acknowledged, worker.lines())
    await judge.remembered(database_url, acknowledged, worker.lines())
    assert await cargo.broken(database_url) == []
    born = await judge.read(
        database_url, "select distinct singleton is not null as keyed from ferryman.tasks where name <> 'voyage'"
    )
    assert [row["keyed"] for row in born] == [not plain]


async def load(point: str, url: str, gate: Path) -> list[str]:
    if point.startswith("wait."):
        return await cargo.load(url, VOYAGES, name="voyage")
    if point in DURABLE_POINTS:
        return await cargo.load(url, 12, name="voyage")
    if point == "settle.inside":
        return await cargo.load_owing(url, 40)
    if point in ("renew.before", "drain.begun"):  # each life must have a task in hand when it comes to its point
        return await cargo.load(url, 16, gate=str(gate))
    return await cargo.load(url, 40)


def assert_killed(killed: Ship, point: str, count: int) -> None:
    """The faults were written down before they struck, and the mother saw each child die of it."""
    assert killed.strikes(point) == count
    assert [line["signal"] for line in killed.lines("died")][:count] == [signal.SIGKILL] * count


@pytest.mark.contract("R1", "K11", "K24")
@pytest.mark.parametrize("point", PRODUCER_POINTS)
async def test_a_producer_that_dies_creates_nothing_twice(point: str, database_url: str, ship: Launch) -> None:
    keys = 40
    worker = ship(database_url).start()
    producer = ship(database_url, role="producer", count=keys, lives=[*[PRODUCER_POINTS[point]] * KILLS, ""]).start()

    await producer.seen("stopped")
    await judge.all_ended(database_url)

    assert_killed(producer, point, KILLS)
    acknowledged = {line["key"]: line["task"] for line in producer.lines("ok")}
    await judge.judge(database_url, acknowledged.values(), worker.lines())
    rows = await judge.read(database_url, "select id::text, idempotency_key as key from ferryman.tasks")
    assert sorted((row["key"], row["id"]) for row in rows) == sorted(acknowledged.items())
    # A create that committed before its caller died is met by the next life.
    hits = sum(line["hit"] for line in producer.lines("ok"))
    assert hits == (KILLS if point == "create.committed" else 0)
    assert await cargo.broken(database_url) == []


@pytest.mark.contract("R1", "K24")
@pytest.mark.parametrize("point", PRODUCER_POINTS)
async def test_a_producer_that_dies_loses_no_bare_create_and_makes_none_unasked(
    point: str, database_url: str, ship: Launch
) -> None:
    """Without a key nobody can tell a repeat: the next life makes another task, and the product itself does not."""
    keys = 40
    worker = ship(database_url).start()
    lives = [*[PRODUCER_POINTS[point]] * KILLS, ""]
    producer = ship(database_url, role="producer", bare=True, count=keys, lives=lives).start()

    await producer.seen("stopped")
    await judge.all_ended(database_url)

    assert_killed(producer, point, KILLS)
    acknowledged = {line["task"]: line["key"] for line in producer.lines("ok")}
    await judge.judge(database_url, acknowledged, worker.lines())
    rows = await judge.read(
        database_url, "select id::text, payload ->> 'key' as key, idempotency_key from ferryman.tasks"
    )
    assert {row["idempotency_key"] for row in rows} == {None}
    assert {row["id"]: row["key"] for row in rows}.items() >= acknowledged.items()
    made, asked = (Counter(each["key"] for each in lines) for lines in (rows, producer.lines("invoke")))
    assert not made - asked
    assert made.total() == keys + (KILLS if point == "create.committed" else 0)
    assert await cargo.broken(database_url) == []


@pytest.mark.contract("R1", "W23", "K6")
@pytest.mark.parametrize("retries", [cargo.RETRIES, 0], ids=["tried again", "at their end"])
@pytest.mark.parametrize("point", WATCHDOG_POINTS)
async def test_a_watchdog_that_dies_leaves_nothing_half_done(
    point: str, retries: int, database_url: str, ship: Launch, tmp_path: Path
) -> None:
    """What it takes back uses one attempt, and what it ends is told once to whom that end is owed."""
    await keep_house(ship(database_url))
    gate = tmp_path / "gate"  # so that none has ended when the eighth begins
    acknowledged = await cargo.load_owing(database_url, 8, gate=str(gate), retries=retries)
    first = ship(database_url, lives=["handler.started=kill@8"]).start()
    await first.seen("died")
    gate.touch()
    dog = ship(database_url, lives=[*[WATCHDOG_POINTS[point]] * KILLS, ""]).start()

    await judge.all_ended(database_url)

    assert_killed(dog, point, KILLS)
    lines = [*first.lines(), *dog.lines()]
    await judge.judge(database_url, acknowledged, lines, state="succeeded" if retries else "failed")
    rows = await judge.read(database_url, "select distinct attempt from ferryman.tasks")
    assert [row["attempt"] for row in rows] == [2 if retries else 1]
    assert await cargo.debts(database_url) == [1] * 8
    assert await cargo.broken(database_url) == []


@pytest.mark.contract("T7", "K9", "R1")
async def test_a_task_that_kills_its_worker_every_time_ends_at_its_cap(database_url: str, ship: Launch) -> None:
    async with cargo.client(database_url) as app:
        poison = await app.tasks.create("job", {"key": "poison"}, max_retries=1)
    worker = ship(database_url, lives=["handler.started=kill@1", "handler.started=kill@1", ""]).start()
    await worker.seen("died", count=2)
    good = await cargo.load(database_url, 5)

    await judge.all_ended(database_url)

    rows = await judge.read(
        database_url, "select id::text, state, attempt, last_error_code as code from ferryman.tasks"
    )
    ended = {row["id"]: (row["state"], row["attempt"], row["code"]) for row in rows}
    assert ended.pop(str(poison.id)) == ("failed", 2, "TASK_RETRY_EXHAUSTED")
    assert ended == dict.fromkeys(good, ("succeeded", 1, None))
    assert await cargo.broken(database_url) == []


@pytest.mark.contract("R1", "K17")
async def test_a_whole_fleet_killed_at_once_leaves_everything_to_the_next(
    database_url: str, ship: Launch, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"  # so that there is work for whoever of the fleet comes last
    acknowledged = await cargo.load(database_url, 60, gate=str(gate))
    fleet = [ship(database_url).start() for _ in range(3)]
    await asyncio.gather(*(each.seen("start", count=4) for each in fleet))
    for each in fleet:
        os.kill(each.pid, signal.SIGKILL)
    await until(lambda: not any(each.alive() for each in fleet), "the end of the fleet")
    gate.touch()

    successor = ship(database_url).start()
    await judge.all_ended(database_url)

    lines = [line for each in [*fleet, successor] for line in each.lines()]
    await judge.judge(database_url, acknowledged, lines)
    assert await cargo.broken(database_url) == []


@pytest.mark.contract("R1", "T11", "T10")
@pytest.mark.parametrize("point", SCHEDULER_POINTS)
async def test_a_scheduler_that_dies_fires_everything_once(point: str, database_url: str, ship: Launch) -> None:
    count = (KILLS + 1) * SET  # a set for each life, also where a set is written before its scheduler dies
    await cargo.load_schedules(database_url, count)
    killed = ship(database_url, lives=[*[SCHEDULER_POINTS[point]] * KILLS, ""]).start()

    await killed.seen("working", count=KILLS + 1)
    await judge.all_fired(database_url, count)
    await judge.all_ended(database_url)

    assert_killed(killed, point, KILLS)
    await judge.judge(database_url, [], killed.lines())
    fired = await judge.read(database_url, "select schedule, count(*) as n from ferryman.tasks group by schedule")
    assert [row["n"] for row in fired] == [1] * count
    assert await cargo.broken(database_url) == []
