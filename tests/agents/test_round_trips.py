"""Round trips are a budget: how often the wire is used between a turn's call and its next line."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from ferryman import Ferryman, Turn
from ferryman.agents import rules
from ferryman.agents.states import TurnStatus
from ferryman.agents.work.crew import TurnCrew
from ferryman.agents.work.profiles import TOOL_TASK
from ferryman.app import crews
from ferryman.kernel.doorbell import NoDoorbell
from ferryman.kernel.pool import Line
from ferryman.tasks import store
from ferryman.tasks.model import Outcome
from ferryman.tasks.states import SUCCEEDED
from ferryman.tasks.work import settle
from ferryman.tasks.work.worker import Terms
from tests.agents.house import OWNER
from tests.patience import PATIENCE_SECONDS
from tests.sql.counted import Counted
from tests.sql.moves import LANE, LEASE, MARGIN

SUSPENDS = ["-- running -> suspended", "-- (nothing) -> pending | ready"]
SETTLES = ["-- Heads in the order", "-- running -> succeeded", "-- -> consumed, waiting -> received"]
RESUMES = ["-- dispatched -> running, suspended -> running"]


def made(database_url: str) -> Ferryman:
    app = Ferryman(database_url)

    @app.tool
    async def look(place: int) -> None: ...

    @app.agent
    async def writer(turn: Turn) -> Any:
        first = await turn.call_tool("look", place=1)
        return first, [each.value for each in await turn.call_tools([("look", {"place": 2}), ("look", {"place": 3})])]

    return app


class Hands:
    """A worker's lines and crew, without its pump: each act is counted."""

    def __init__(self, app: Ferryman, database_url: str) -> None:
        agreed = Terms(
            queues=["default"], concurrency=10, claim_max=10, lanes=1, lease=LEASE, grace=LEASE, poll=LEASE,
            result_limit=1000, version="0", ends_after=timedelta(days=1),
        )  # fmt: skip
        self.line = Line(database_url)
        self.wire = Counted(self.line)
        self.part = crews.turns(app._open, agreed, line=lambda: Line(database_url), boot_id=OWNER)
        self.crew = TurnCrew(
            self.part.runner, app.agents.parties, NoDoorbell(), owner=OWNER, targets=["default"]
        )  # fmt: skip
        self.owners = app._open.owners

    def trips(self) -> tuple[Sequence[str], int]:
        """Return what went over the wire, and in how many transactions, and begin to count anew."""
        told = self.wire.statements[:], self.wire.transactions
        self.wire.statements.clear()
        self.wire.transactions = 0
        return told

    async def turn(self, *outcomes: Any) -> Any:
        return await self.crew.turn(self.wire, outcomes, 10)  # type: ignore[arg-type]  # the line of a worker, counted

    async def answer(self) -> None:
        """Do what the worker of tasks does with the tools' tasks that wait."""
        claimed, _, _ = await store.turn(
            self.line,
            [],
            owner=OWNER,
            lanes=[LANE],
            names=[f"{TOOL_TASK}look"],
            kinds=["tool"],
            lease=LEASE,
            margin=MARGIN,
        )
        told = [
            Outcome(each.id, each.epoch, OWNER, SUCCEEDED, result=each.payload, callback=each.callback,
                    callback_ref=each.callback_ref)
            for each in claimed
        ]  # fmt: skip
        async with self.wire.transaction() as tx:
            await settle.settle(tx, self.owners, told)

    async def close(self) -> None:
        await self.part.close()
        await self.line.close()


def like(told: tuple[Sequence[str], int], statements: Sequence[str], transactions: int) -> bool:
    return told[1] == transactions and len(told[0]) == len(statements) and all(
        each.startswith(one) for each, one in zip(told[0], statements, strict=True)
    )  # fmt: skip


@pytest.mark.contract("P10", "A11", "A12")
async def test_a_turn_that_calls_tools_goes_on_after_six_statements_and_two_transactions(database_url: str) -> None:
    """With the claim of the tool's task, and begin and commit, ten trips; as many for several calls at once as for one."""
    async with made(database_url) as app:
        hands = Hands(app, database_url)
        try:
            await app.agents.ensure("ann", "writer")
            handle = await app.agents.send("ann", "go")
            [taken] = (await hands.turn()).items
            hands.trips()
            for count in (1, 2):
                suspension = await hands.crew.run(taken)
                await hands.turn(suspension)
                assert like(told := hands.trips(), SUSPENDS, 1), told
                await hands.answer()
                assert like(told := hands.trips(), SETTLES, 1), told
                hands.crew.heard()
                [taken] = (await hands.turn()).items
                assert like(told := hands.trips(), RESUMES, 0), told
                assert len(taken.results) == count
            end = await hands.crew.run(taken)
            await hands.turn(end)
            found = await handle.end(timeout=PATIENCE_SECONDS)
            assert (found.turn_status, await handle.deliverable(found)) == (
                "success", [{"place": 1}, [{"place": 2}, {"place": 3}]],
            )  # fmt: skip
        finally:
            await hands.close()


@pytest.mark.contract("K2", "P10")
async def test_a_look_that_nobody_asked_for_is_not_made_beside_an_outcome(database_url: str) -> None:
    async with made(database_url) as app:
        hands = Hands(app, database_url)
        try:
            await app.agents.ensure("ann", "writer")
            await app.agents.ensure("bob", "writer")
            await app.agents.send("ann", "go")
            await app.agents.send("ann", "again")
            [ann] = (await hands.turn()).items
            await app.agents.send("bob", "go")

            # Nobody rang: bob's turn waits, and is not looked for.
            suspension = await hands.crew.run(ann)
            assert (await hands.turn(suspension)).items == []
            await hands.answer()
            # Without an outcome the pump comes only when it was rung, or doubts.
            [ann, bob] = sorted((await hands.turn()).items, key=lambda each: each.agent_id)
            # An outcome that puts something before the workers is itself a reason to look: ann's next turn.
            again = (await hands.turn(rules.end_of(ann, TurnStatus.SUCCESS, 1, owner=OWNER))).items
            assert [(each.agent_id, each.id == ann.id) for each in again] == [("ann", False)]
            # So is a ring, and a doubt.
            for word, running in ((hands.crew.heard, bob), (hands.crew.doubt, again[0])):
                await app.agents.ensure(word.__name__, "writer")
                await app.agents.send(word.__name__, "go")
                word()
                [new] = (await hands.turn(await hands.crew.run(running))).items
                assert new.agent_id == word.__name__
        finally:
            await hands.close()
