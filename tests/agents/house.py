"""An agents' house for tests: a database, the functions of the domain, and a worker's hands without a worker."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from ferryman.agents import intake, rules, watch
from ferryman.agents.ends import Aftermath, Parties
from ferryman.agents.intake.report import ToolEnds
from ferryman.agents.model import (
    Accepted,
    Answer,
    Call,
    NewAgent,
    Order,
    Outcome,
    Report,
    Source,
    Stop,
    Taken,
    Terms,
    TurnRecord,
)
from ferryman.agents.ports import TurnOwners
from ferryman.agents.states import TurnStatus
from ferryman.agents.store import heads
from ferryman.agents.work import settle, stops
from ferryman.kernel import ids, invariants, watchdog
from ferryman.kernel.doorbell import NoDoorbell
from ferryman.kernel.invariants import KERNEL_INVARIANTS
from ferryman.kernel.pool import Database
from ferryman.tasks.ports import Owners
from ferryman.tasks.watch import TASK_INVARIANTS
from ferryman.testing import travel

TENANT = "default"
SECOND = timedelta(seconds=1)
OWNER, OTHER = UUID(int=1), UUID(int=2)


class House:
    """What a test does with agents, each act in a transaction of its own."""

    def __init__(self, db: Database, *, terms: Terms | None = None, owners: TurnOwners | None = None) -> None:
        self.db = db
        terms = terms or Terms()
        tools = ToolEnds(Parties(terms=terms))
        self.tasks = Owners({"tool": tools})
        self.parties = Parties(terms, owners or TurnOwners(), self.tasks)
        self.after = Aftermath()

    @property
    def terms(self) -> Terms:
        return self.parties.terms

    # Coming in

    async def agent(self, agent_id: str = "ann", **more: Any) -> str:
        async with self.db.transaction() as tx:
            await intake.create(tx, [NewAgent(TENANT, agent_id, more.pop("profile", "writer"), **more)])
        return agent_id

    async def answer(self, agent_id: str = "ann", instruction: Any = "write", **more: Any) -> Answer:
        order = Order(
            tenant=TENANT,
            agent_id=agent_id,
            turn=more.pop("turn", None) or ids.new_id(),
            instruction=instruction,
            **more,
        )
        async with self.db.transaction() as tx:
            [answer] = await intake.enqueue(tx, [order], self.parties, after=self.after)
        return answer

    async def enqueue(self, agent_id: str = "ann", instruction: Any = "write", **more: Any) -> UUID:
        answer = await self.answer(agent_id, instruction, **more)
        assert isinstance(answer, Accepted), answer
        return answer.id

    async def report(self, call: str, **more: Any) -> Answer:
        content = more.pop("content", {"status": "success", "result": 1})
        said = Report(tenant=TENANT, tool_call_id=call, id=ids.new_id(), card_id=ids.new_id(), content=content, **more)
        async with self.db.transaction() as tx:
            [answer] = await intake.report(tx, [said], self.parties, after=self.after)
        return answer

    async def stop(self, turn: UUID, agent_id: str = "ann", **more: Any) -> Answer:
        async with self.db.transaction() as tx:
            asked = Stop(tenant=TENANT, agent_id=agent_id, turn=turn, id=ids.new_id(), **more)
            [answer] = await intake.stop(tx, [asked], after=self.after)
        return answer

    async def carry_out_stops(self) -> int:
        async with self.db.transaction() as tx:
            return await stops.sweep(tx, self.parties, after=self.after)

    async def cancel(self, turn: UUID) -> Answer:
        async with self.db.transaction() as tx:
            source = Source()
            [answer] = await intake.cancel(tx, [turn], self.parties, tenant=TENANT, source=source, after=self.after)
        return answer

    # A worker's hands

    async def claim(
        self, *, owner: UUID = OWNER, room: int = 100, profiles: Sequence[str] = ("writer",)
    ) -> list[Taken]:
        async with self.db.transaction() as tx:
            return await heads.claim(
                tx, owner=owner, profiles=profiles, targets=["default"], kinds=self.parties.owners.kinds, room=room,
                terms=self.terms,
            )  # fmt: skip

    async def settle(self, *outcomes: Outcome, owner: UUID = OWNER) -> set[UUID]:
        async with self.db.transaction() as tx:
            done, _busy = await settle.settle(tx, outcomes, self.parties, owner=owner, after=self.after)
        return done

    def success(self, taken: Taken, content: Any = "done", *, owner: UUID = OWNER) -> Outcome:
        return rules.end_of(taken, TurnStatus.SUCCESS, content, owner=owner)

    def waits(self, taken: Taken, *calls: str | tuple[str, float], owner: UUID = OWNER, **more: Any) -> Outcome:
        return rules.suspension_of(taken, [call_of(each, **more) for each in calls], owner=owner)

    async def begin(self, agent_id: str = "ann", **more: Any) -> Taken:
        """Let an agent have a turn that runs."""
        await self.agent(agent_id)
        turn = await self.enqueue(agent_id, **more)
        [taken] = [each for each in await self.claim() if each.id == turn]
        return taken

    async def suspend(self, *calls: str | tuple[str, float], agent_id: str = "ann") -> Taken:
        """Let an agent have a turn that waits for these calls."""
        taken = await self.begin(agent_id)
        assert await self.settle(self.waits(taken, *calls)) == {taken.id}
        return taken

    # Looking

    async def turn(self, id: UUID) -> TurnRecord:
        async with self.db.session() as tx:
            [record] = await intake.read.turns(tx, [id], tenant=TENANT)
        return record

    async def head(self, agent_id: str = "ann") -> dict[str, Any]:
        [row] = await self.rows("select * from ferryman.agent_state_head where agent_id = $1", agent_id)
        return row

    async def rows(self, sql: str, *args: Any) -> list[dict[str, Any]]:
        async with self.db.session() as tx:
            return [dict(row) for row in await tx.fetch(sql, *args)]  # type: ignore[call-overload]  # a record has keys

    async def value(self, sql: str, *args: Any) -> Any:
        [row] = await self.rows(sql, *args)
        return next(iter(row.values()))

    async def write(self, sql: str, *args: Any) -> None:
        """Plant a fault: write past the guards."""
        async with self.db.transaction() as tx:
            await tx.fetch("select set_config('session_replication_role', 'replica', true)")
            await tx.fetch(sql, *args)

    async def events(self, turn: UUID) -> list[tuple[Any, ...]]:
        rows = await self.rows(
            "select kind, from_state, to_state, reason_code from ferryman.events where subject = $1 order by id", turn
        )
        return [tuple(row.values()) for row in rows]

    async def ends(self, turn: UUID) -> list[tuple[Any, ...]]:
        """Return the task events of a turn: there is never more than one."""
        return [each[2:] for each in await self.events(turn) if each[0] == "agent.task"]

    async def travel(self, by: timedelta | float) -> None:
        async with self.db.transaction() as tx:
            await travel(tx, by if isinstance(by, timedelta) else timedelta(seconds=by))

    async def tick(self, *names: str) -> watchdog.Report:
        """Let every rule for agents, or those named, look once."""
        every = watch.rules(self.parties, NoDoorbell(), sweep=SECOND)
        chosen = [rule for rule in every if not names or rule.name in names]
        assert len(chosen) == len(names or every)
        async with self.db.session() as ground:
            return await watchdog.tick(ground, chosen)

    async def broken(self) -> list[invariants.Violation]:
        """Return the invariants that do not hold."""
        async with self.db.transaction() as tx:
            return await invariants.check(tx, [*KERNEL_INVARIANTS, *TASK_INVARIANTS, *watch.AGENT_INVARIANTS])


def call_of(call: str | tuple[str, float], **more: Any) -> Call:
    """Return a call that somebody outside answers."""
    name, seconds = call if isinstance(call, tuple) else (call, 30.0)
    return Call(
        tool_call_id=name, tool_name="search", content={"arguments": {}}, card_id=ids.new_id(),
        timeout=timedelta(seconds=seconds), **more,
    )  # fmt: skip
