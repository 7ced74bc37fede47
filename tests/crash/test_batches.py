"""R1 for batches: workers are killed while they fork, dispatch, join and tell; results are whole, in order, and told once."""

import json
import os
import random
import signal
from collections.abc import Sequence
from pathlib import Path
from uuid import UUID

import pytest

from ferryman import Ferryman
from ferryman.agents.watch import AGENT_INVARIANTS
from ferryman.batches.watch import BATCH_INVARIANTS
from ferryman.kernel import invariants
from ferryman.kernel.pool import Database
from tests.crash import cargo, judge
from tests.crash.conftest import Launch
from tests.crash.test_turns import all_ended
from tests.crash.test_zombies import ENDS, frozen, holders, living
from tests.crash.yard import Ship
from tests.spread import KILLS, paired


def at_random(seed: int, count: int) -> list[str]:
    """Draw deaths in the middle of work."""
    drawn = random.Random(seed)
    points = [("handler.started", 40), ("handler.returned", 40), ("settle.inside", 4), ("settle.committed", 4)]
    return [f"{point}=kill@{drawn.randint(1, most)}" for point, most in drawn.choices(points, k=count)]


LIVES = {
    "dispatch": ["settle.inside=kill@1", "batch.dispatched=kill@1", "batch.sent=kill@1", "settle.committed=kill@2"],
    "join": ["handler.returned=kill@5", "settle.inside=kill@3", "batch.closed=kill@1", "settle.committed=kill@3"],
    "many": at_random(7, 5),
}
SHAPES = {"dispatch": (3, 6), "join": (3, 6), "many": (1, 256)}


POINTS = {
    "batch.dispatched": "batch.dispatched=kill@1",
    "batch.sent": "batch.sent=kill@1",
    "batch.closed": "batch.closed=kill@1",
}

SENT = "select status from ferryman.pmo_batch_tasks"
ASKED = """
    select task.attempt_count as attempts,
           (select count(*) from ferryman.agent_inbox as message where message.agent_id = task.agent_id) as messages
    from ferryman.pmo_batch_tasks as task
"""


async def fork(url: str, parents: int, children: int, *, first: int = 0, gate: Path | None = None) -> list[UUID]:
    """Ask as many agents for a turn that forks; their children end when the gate, if there is one, is open."""
    asked = {"children": children, "gate": str(gate or "")}
    async with Ferryman(url) as app:
        turns = []
        for n in range(first, first + parents):
            await app.agents.create(f"admiral-{n}", profile="admiral")
            turns.append((await app.agents.send(f"admiral-{n}", asked)).id)
        return turns


async def assert_joined_once(url: str, turns: Sequence[UUID], children: int) -> None:
    """Each parent has the result of each child, in order; nothing was forked, told or answered twice."""
    rows = await judge.read(
        url,
        """select message.turn_status, card.content
           from ferryman.agent_inbox as message
           join ferryman.cards as card on card.id = message.deliverable_card_id
           where message.id = any($1)""",
        turns,
    )
    parents = len(turns)
    assert [row["turn_status"] for row in rows] == ["success"] * parents
    for row in rows:
        result = json.loads(row["content"])
        told = [(each["task_index"], each["status"], each["summary"]) for each in result["results"]]
        assert told == [(n, "success", f"stroke {n}") for n in range(children)]
    made = await judge.read(url, "select count(*) as n from ferryman.pmo_batches where status = 'success'")
    cards = await judge.read(url, "select count(*) as n from ferryman.cards where type = 'tool.result'")
    oars = await judge.read(url, "select count(*) as n from ferryman.agents where profile = 'oar'")
    assert (made[0]["n"], cards[0]["n"], oars[0]["n"]) == (parents, parents, parents * children)
    db = Database(url)
    await db.open()
    try:
        async with db.session() as tx:
            assert await invariants.check(tx, [*AGENT_INVARIANTS, *BATCH_INVARIANTS]) == []
    finally:
        await db.close()
    assert await cargo.broken(url) == []


@pytest.mark.contract("R1", "B4", "B5", "B6", "B9", "B13")
@pytest.mark.parametrize("lives", LIVES)
async def test_batches_survive_the_deaths_of_their_workers(lives: str, database_url: str, ship: Launch) -> None:
    parents, children = SHAPES[lives]
    turns = await fork(database_url, parents, children)
    worker = ship(database_url, lives=[*LIVES[lives], ""], agents=True).start()

    await worker.seen("died", count=len(LIVES[lives]))
    await all_ended(database_url)

    assert [line["signal"] for line in worker.lines("died")] == [signal.SIGKILL] * len(LIVES[lives])
    await assert_joined_once(database_url, turns, children)


@pytest.mark.contract("R1", "B5", "B6", "B9")
@pytest.mark.parametrize("point", POINTS)
async def test_a_batch_survives_several_deaths_at_each_of_its_own_points(
    point: str, database_url: str, ship: Launch
) -> None:
    worker = ship(database_url, lives=[*[POINTS[point]] * KILLS, ""], agents=True).start()

    turns: list[UUID] = []
    for life in range(1, KILLS + 1):
        await worker.seen("working", count=life)
        # There is something to send, and to close, in every life.
        turns += await fork(database_url, 4, 2, first=len(turns))
        await worker.seen("died", count=life)
    await all_ended(database_url)

    assert worker.strikes(point) == KILLS
    assert [line["signal"] for line in worker.lines("died")][:KILLS] == [signal.SIGKILL] * KILLS
    await assert_joined_once(database_url, turns, 2)


async def back(zombie: Ship, url: str, *, fenced: bool) -> None:
    """Let a frozen worker go on and leave; it changes nothing of the batches."""
    before = await judge.read(url, "select * from ferryman.pmo_batch_tasks order by id")
    os.kill(zombie.pid, signal.SIGCONT)
    if fenced:
        await zombie.seen("fenced")
    os.kill(zombie.pid, signal.SIGTERM)
    await zombie.seen("stopped")
    assert await judge.read(url, "select * from ferryman.pmo_batch_tasks order by id") == before


@pytest.mark.contract("R2", "B6", "K4")
@pytest.mark.parametrize("ends", ENDS)
async def test_a_worker_frozen_while_it_closes_changes_nothing_when_it_is_back(
    ends: str, database_url: str, ship: Launch, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    gate.touch()
    turns = await fork(database_url, 1, 3, gate=gate)
    zombie = ship(database_url, agents=True).start(
        FERRYMAN_FAULTS="batch.closed=stop@1", FERRYMAN_FAULTS_LOG=str(tmp_path / "ship0.faults")
    )
    await frozen(zombie, "batch.closed")
    gate.unlink()
    successor = ship(database_url, agents=True).start()
    await successor.seen("stroke")
    if ends == "before it comes back":
        gate.touch()
        await all_ended(database_url)

    await back(zombie, database_url, fenced=True)

    gate.touch()
    await all_ended(database_url)
    await assert_joined_once(database_url, turns, 3)


@pytest.mark.contract("R2", "B5", "K2", "K4")
@pytest.mark.parametrize(("point", "ends"), paired(["batch.dispatched", "batch.sent"], ENDS))
async def test_what_a_worker_frozen_while_it_sends_held_or_did_not_ring_for_is_done_without_it(
    point: str, ends: str, database_url: str, ship: Launch, tmp_path: Path
) -> None:
    """What it had taken and not committed comes free and is sent once by another; what it had sent waits for no ring.

    There is no fence to come to: its transaction was ended by the server, or was over.
    """
    gate = tmp_path / "gate"
    turns = await fork(database_url, 1, 3, gate=gate)
    zombie = ship(database_url, agents=True).start(
        FERRYMAN_FAULTS=f"{point}=stop@1", FERRYMAN_FAULTS_LOG=str(tmp_path / "ship0.faults")
    )
    await frozen(zombie, point)
    sent = await judge.read(database_url, SENT)
    assert [row["status"] for row in sent] == [{"batch.dispatched": "pending", "batch.sent": "dispatched"}[point]] * 3
    held = await holders(database_url, "ferryman.pmo_batch_tasks")
    successor = ship(database_url, agents=True).start()
    await successor.seen("stroke", count=3)
    assert held - await living(database_url) or point == "batch.sent"
    if ends == "before it comes back":
        gate.touch()
        await all_ended(database_url)

    await back(zombie, database_url, fenced=False)

    gate.touch()
    await all_ended(database_url)
    # One message and one claim for each child: nothing that the frozen one had asked for was asked for again.
    asked = await judge.read(database_url, ASKED)
    assert [(row["messages"], row["attempts"]) for row in asked] == [(1, 1)] * 3
    await assert_joined_once(database_url, turns, 3)
