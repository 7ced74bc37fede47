"""R1 for batches: workers are killed while they fork, dispatch, join and tell; results are whole, in order, and told once."""

import json
import random
import signal

import pytest

from ferryman import Ferryman
from ferryman.agents.watch import AGENT_INVARIANTS
from ferryman.batches.watch import BATCH_INVARIANTS
from ferryman.kernel import invariants
from ferryman.kernel.pool import Database
from tests.crash import cargo, judge
from tests.crash.conftest import Launch
from tests.crash.test_turns import all_ended


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


@pytest.mark.contract("R1", "B4", "B5", "B6", "B9", "B13")
@pytest.mark.parametrize("lives", LIVES)
async def test_batches_survive_the_deaths_of_their_workers(lives: str, database_url: str, ship: Launch) -> None:
    parents, children = SHAPES[lives]
    async with Ferryman(database_url) as app:
        turns = []
        for n in range(parents):
            await app.agents.create(f"admiral-{n}", profile="admiral")
            turns.append((await app.agents.send(f"admiral-{n}", children)).id)
    worker = ship(database_url, lives=[*LIVES[lives], ""], agents=True).start()

    await worker.seen("died", count=len(LIVES[lives]))
    await all_ended(database_url)

    assert [line["signal"] for line in worker.lines("died")] == [signal.SIGKILL] * len(LIVES[lives])
    rows = await judge.read(
        database_url,
        """select message.turn_status, card.content
           from ferryman.agent_inbox as message
           join ferryman.cards as card on card.id = message.deliverable_card_id
           where message.id = any($1)""",
        turns,
    )
    assert [row["turn_status"] for row in rows] == ["success"] * parents
    for row in rows:
        result = json.loads(row["content"])
        told = [(each["task_index"], each["status"], each["summary"]) for each in result["results"]]
        assert told == [(n, "success", f"stroke {n}") for n in range(children)]
    made = await judge.read(database_url, "select count(*) as n from ferryman.pmo_batches where status = 'success'")
    cards = await judge.read(database_url, "select count(*) as n from ferryman.cards where type = 'tool.result'")
    oars = await judge.read(database_url, "select count(*) as n from ferryman.agents where profile = 'oar'")
    assert (made[0]["n"], cards[0]["n"], oars[0]["n"]) == (parents, parents, parents * children)
    db = Database(database_url)
    await db.open()
    try:
        async with db.session() as tx:
            assert await invariants.check(tx, [*AGENT_INVARIANTS, *BATCH_INVARIANTS]) == []
    finally:
        await db.close()
    assert await cargo.broken(database_url) == []
