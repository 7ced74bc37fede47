"""R1 and R2 for turns: workers are killed at every named point and frozen past their lease; each turn still ends once."""

import json
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from ferryman import Ferryman
from ferryman.agents.watch import AGENT_INVARIANTS
from ferryman.kernel import invariants
from ferryman.kernel.pool import Database
from tests.crash import cargo, judge
from tests.crash.conftest import Launch
from tests.crash.test_zombies import ENDS, frozen
from tests.crash.yard import Line, until
from tests.patience import PATIENCE_SECONDS
from tests.spread import KILLS, paired

# Both pumps of a worker pass these points, that of turns and that of their tools' tasks: hits near the beginning of a life meet
# one or the other. Several lives per test; those whose points are passed seldom come first, while there is much to do.
LIVES = {
    "claims": ["claim.sent=kill@2", "claim.sent=kill@4", "claim.committed=kill@1", "claim.committed=kill@3"],
    "handlers": [
        "handler.started=kill@2",
        "handler.started=kill@5",
        "handler.returned=kill@2",
        "handler.returned=kill@3",
    ],
    "settles": ["settle.before=kill@1", "settle.before=kill@2", "settle.inside=kill@1", "settle.inside=kill@2"],
    "commits": ["step.before=kill@1", "step.committed=kill@1", "settle.committed=kill@2", "settle.committed=kill@1"],
}
TURNS = 6

# Turns that call no tool: there are no tasks, so each of these is passed by the pump of turns alone.
ALONE = {
    "claim.sent": "claim.sent",
    "claim.committed": "claim.committed=kill@1",
    "handler.started": "handler.started=kill@2",
    "handler.returned": "handler.returned=kill@2",
    "step.before": "step.before=kill@1",
    "step.committed": "step.committed=kill@1",
    "settle.before": "settle.before=kill@1",
    "settle.inside": "settle.inside=kill@1",
    "settle.committed": "settle.committed=kill@1",
    "renew.before": "renew.before=kill@1",
}
# Passed by the other pumps too, which have nothing to do here: only that of turns is killed at it.
SHARED = ("claim.sent",)


async def send(url: str, count: int, instruction: Any = "sail", *, profile: str = "sailor") -> list[str]:
    """Ask as many agents for a turn each."""
    async with Ferryman(url) as app:
        turns = []
        for n in range(count):
            await app.agents.create(f"{profile}-{n}", profile=profile)
            turns.append(str((await app.agents.send(f"{profile}-{n}", instruction)).id))
        return turns


async def all_ended(url: str) -> None:
    """Wait until no message is live."""
    await judge.nothing_of(
        url,
        """select message.id, message.message_type, message.status, head.status as head, head.turn_epoch
           from ferryman.agent_inbox as message
           left join ferryman.agent_state_head as head on head.active_agent_turn_id = message.agent_turn_id
           where message.archived_at is null""",
    )


async def assert_one_story(url: str, turns: Sequence[str], lines: Sequence[Line], *, alone: bool = False) -> None:
    """Each turn succeeded once, with the words of its remembered steps; nothing holds on, nothing is broken."""
    rows = await judge.read(
        url,
        """select message.id::text, message.turn_status, message.error_code, card.content
           from ferryman.agent_inbox as message
           join ferryman.cards as card on card.id = message.deliverable_card_id
           where message.id = any($1)""",
        [UUID(turn) for turn in turns],
    )
    assert {row["id"]: (row["turn_status"], row["error_code"]) for row in rows} == dict.fromkeys(
        turns, ("success", None)
    )
    steps = await judge.read(
        url, "select agent_turn_id::text as turn, name, result from ferryman.agent_steps where kind = 'step'"
    )
    kept = {(row["turn"], row["name"]): json.loads(row["result"]) for row in steps}
    for row in rows:
        look, *knots, steer, aye = json.loads(row["content"])
        assert (knots, aye) == ([] if alone else ["knot 1", "knot 2"], "aye captain")
        assert (look, steer) == (kept[row["id"], "look"], kept[row["id"], "steer"])
    said = {(line["turn"], line["step"], line["word"]) for line in lines if line["what"] == "ran"}
    assert all((turn, name, word) in said for (turn, name), word in kept.items())
    ends = await judge.read(
        url, "select subject::text, count(*) as n from ferryman.events where kind = 'agent.task' group by 1"
    )
    assert {row["n"] for row in ends} == {1}
    mates = await judge.read(url, "select count(*) as n from ferryman.agents where profile = 'mate'")
    assert mates[0]["n"] == len(turns)  # no delegation was made twice
    db = Database(url)
    await db.open()
    try:
        async with db.session() as tx:
            assert await invariants.check(tx, AGENT_INVARIANTS) == []
    finally:
        await db.close()
    assert await cargo.broken(url) == []


@pytest.mark.contract("R1", "A1", "A9", "A12", "A13")
@pytest.mark.parametrize("lives", LIVES)
async def test_turns_survive_the_deaths_of_their_workers(lives: str, database_url: str, ship: Launch) -> None:
    turns = await send(database_url, TURNS)
    worker = ship(database_url, lives=[*LIVES[lives], ""], agents=True).start()

    await worker.seen("died", count=len(LIVES[lives]))
    await all_ended(database_url)

    assert [line["signal"] for line in worker.lines("died")][: len(LIVES[lives])] == [signal.SIGKILL] * len(
        LIVES[lives]
    )
    for point in {plan.partition("=")[0] for plan in LIVES[lives]}:
        assert worker.strikes(point) == sum(plan.startswith(point) for plan in LIVES[lives])
    await assert_one_story(database_url, turns, worker.lines())


@pytest.mark.contract("R1", "A1", "A9", "A12")
@pytest.mark.parametrize("point", ALONE)
async def test_a_turn_without_tasks_survives_deaths_at_every_point(
    point: str, database_url: str, ship: Launch, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"  # shut only where there must be a lease to renew in every life
    if point != "renew.before":
        gate.touch()
    turns = await send(database_url, 4 * KILLS, {"alone": True, "gate": str(gate)})
    worker = ship(
        database_url, lives=[*[ALONE[point]] * KILLS, ""], agents=True, of="turn" if point in SHARED else None
    ).start(FERRYMAN_WORKER__CONCURRENCY="4")

    await worker.seen("died", count=KILLS)
    gate.touch()
    await all_ended(database_url)

    assert (len(worker.lines("struck")) if point in SHARED else worker.strikes(point)) == KILLS
    assert [line["signal"] for line in worker.lines("died")][:KILLS] == [signal.SIGKILL] * KILLS
    assert await judge.read(database_url, "select id from ferryman.tasks") == []
    await assert_one_story(database_url, turns, worker.lines(), alone=True)


# Told to stop, the pump of turns and that of tasks pass their point one after the other.
LEAVING = ["drain.begun=kill@1", "drain.begun=kill@2", "drain.begun=kill@1"]


@pytest.mark.contract("R1", "A1", "K17")
async def test_turns_survive_deaths_while_their_worker_drains(database_url: str, ship: Launch) -> None:
    turns = await send(database_url, 2, {"hold": 0.9})
    worker = ship(database_url, lives=[*LEAVING, ""], agents=True).start()

    for life in range(1, len(LEAVING) + 1):
        begun = await worker.seen("working", count=life)
        await worker.seen("start", pid=begun["pid"])
        os.kill(begun["pid"], signal.SIGTERM)
    await worker.seen("died", count=len(LEAVING))
    await all_ended(database_url)

    assert worker.strikes("drain.begun") == len(LEAVING)
    await assert_one_story(database_url, turns, worker.lines())


# Where the holder of a turn freezes; its tools come later, so the first to pass is the turn.
STOPS = (
    "claim.committed",
    "handler.started",
    "handler.returned",
    "step.before",
    "settle.before",
    "settle.inside",
    "renew.before",
)


@pytest.mark.contract("R2", "A1", "A2", "K4")
@pytest.mark.parametrize(("point", "ends"), paired(STOPS, ENDS))
async def test_a_frozen_holder_of_a_turn_is_fenced(
    point: str, ends: str, database_url: str, ship: Launch, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    if point != "renew.before":  # there it must be in hand for a while
        gate.touch()
    [turn] = await send(database_url, 1, {"gate": str(gate)})
    zombie = ship(database_url, agents=True).start(
        FERRYMAN_FAULTS=f"{point}=stop@1", FERRYMAN_FAULTS_LOG=str(tmp_path / "ship0.faults")
    )
    await frozen(zombie, point)
    gate.unlink(missing_ok=True)

    successor = ship(database_url, agents=True).start()
    await successor.seen("ran", turn=turn)
    if ends == "before it comes back":
        gate.touch()
        await all_ended(database_url)
        os.kill(zombie.pid, signal.SIGCONT)
        await zombie.seen("fenced")
    else:
        os.kill(zombie.pid, signal.SIGCONT)
        await zombie.seen("fenced")
        gate.touch()
        await all_ended(database_url)

    await assert_one_story(database_url, [turn], [*zombie.lines(), *successor.lines()])


@pytest.mark.contract("R2", "A18", "K5")
async def test_a_handler_that_blocks_the_loop_is_taken_from_its_worker(
    database_url: str, ship: Launch, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    worker = ship(database_url, agents=True).start()
    await worker.seen("working")
    async with Ferryman(database_url) as app:
        await app.agents.create("stone-1", profile="stone")
        turn = await app.agents.send("stone-1", {"until": str(gate)}, wall_time=1.0)
        await worker.seen("blocks")
        witness = ship(database_url, agents=True).start()

        found = await turn.end(timeout=PATIENCE_SECONDS)

        assert found.turn_status in ("partial", "timeout", "failed")
        assert found.error_code is not None
        gate.touch()
        await until(lambda: worker.lines("unblocks"), "the end of the block", also=worker.output)
        again = await app.agents.send("stone-1", "fine")
        assert await again.result(timeout=PATIENCE_SECONDS) == "fine"
        assert worker.alive()
        assert witness.alive()
