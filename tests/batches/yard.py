"""A yard for tests: agents' house with batches, and hands that dispatch and do the children's turns."""

from __future__ import annotations

import json
from datetime import timedelta
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from ferryman.agents import rules as turn_rules
from ferryman.agents.model import Outcome, Taken
from ferryman.agents.model import Terms as TurnTerms
from ferryman.agents.states import TurnStatus
from ferryman.agents.watch import AGENT_INVARIANTS
from ferryman.batches import rules, watch
from ferryman.batches.ends import BatchEnds, cancel
from ferryman.batches.intake import Wanted, fork, read
from ferryman.batches.model import BatchRecord, Caller, Forked, Refused, TaskRecord, Terms
from ferryman.batches.work.dispatch import Pass, dispatch
from ferryman.kernel import ids, invariants, watchdog
from ferryman.kernel.doorbell import NoDoorbell
from ferryman.kernel.invariants import KERNEL_INVARIANTS
from ferryman.kernel.pool import Database
from ferryman.tasks.watch import TASK_INVARIANTS
from tests.agents.house import OWNER, SECOND, TENANT, House

PROFILES = {name: SimpleNamespace(worker_target="default", when_busy="enqueue") for name in ("child", "writer")}
CALL = "call-1"
# An inbox that fails for one agent.
BROKEN_INBOX = """
create function ferryman.refuse_some() returns trigger language plpgsql as $$
begin
    if new.agent_id = 'bob' then raise exception 'the inbox of bob is broken'; end if;
    return new;
end $$
"""
REFUSE = (
    "create trigger refuse_some before insert on ferryman.agent_inbox for each row"
    " execute function ferryman.refuse_some()"
)


def task(ref: str = "child", instruction: str = "go", strategy: str = "new", **more: Any) -> dict[str, Any]:
    return {"target_strategy": strategy, "target_ref": ref, "instruction": instruction, **more}


class Yard(House):
    """What a test does with batches, each act in a transaction of its own."""

    def __init__(self, db: Database, *, terms: Terms | None = None, turn_terms: TurnTerms | None = None) -> None:
        super().__init__(db, terms=turn_terms)
        self.owner = BatchEnds(terms or Terms(), self.parties.terms, tasks=self.tasks)
        self.parties = self.owner.parties

    # Coming in

    async def answer_fork(
        self, *tasks: dict[str, Any], caller: Caller | None = None, policy: Any = None, **asked: Any
    ) -> Forked | Refused:
        [answer] = await self.answer_forks(self.wanted(*tasks, caller=caller, policy=policy, **asked))
        return answer

    async def answer_forks(self, *wanted: Wanted) -> list[Forked | Refused]:
        async with self.db.transaction() as tx:
            return await fork(tx, wanted, self.owner.terms, profiles=PROFILES)

    def wanted(self, *tasks: dict[str, Any], caller: Caller | None = None, policy: Any = None, **asked: Any) -> Wanted:
        asked.setdefault("tasks", list(tasks) or [task()])
        id, structured = asked.pop("id", None), asked.pop("structured_output", "digest")
        read = rules.read(asked, self.owner.terms)
        return Wanted(read, caller or Caller(tenant=TENANT), id or ids.new_id(), policy, structured_output=structured)

    async def fork(self, *tasks: dict[str, Any], **more: Any) -> UUID:
        answer = await self.answer_fork(*tasks, **more)
        assert isinstance(answer, Forked), answer
        return answer.id

    async def parent(self, agent_id: str = "ann", call: str = CALL) -> Caller:
        """Let an agent have a turn that waits for a call, as one that forks does."""
        taken = await self.suspend((call, 3600.0), agent_id=agent_id)
        return caller_of(taken, call)

    async def dispatch(self, room: int | None = None, *, careful: bool = False) -> Pass:
        async with self.db.transaction() as tx:
            return await dispatch(tx, self.parties, self.owner.terms, after=self.after, room=room, careful=careful)

    async def cancel_batch(self, batch: UUID) -> int:
        async with self.db.transaction() as tx:
            return len(await cancel(tx, [batch], self.parties, self.owner.terms, reason="canceled", after=self.after))

    # Children

    async def children(self) -> list[Taken]:
        """Take the turns of children in hand, in the order of their tasks."""
        taken = await self.claim(profiles=("child",), room=1000)
        order = {row["current_agent_turn_id"]: (row["batch_id"], row["task_index"]) for row in await self.sent()}
        return sorted(taken, key=lambda each: order[each.id])

    async def sent(self) -> list[dict[str, Any]]:
        return await self.rows("select * from ferryman.pmo_batch_tasks where current_agent_turn_id is not null")

    def ends_as(self, taken: Taken, status: str = "success", content: Any = None, **more: Any) -> Outcome:
        given = {"summary": "done"} if content is None and status == "success" else content
        return turn_rules.end_of(taken, TurnStatus(status), given, owner=OWNER, **more)

    async def finish(self, taken: Taken, status: str = "success", content: Any = None, **more: Any) -> set[UUID]:
        return await self.settle(self.ends_as(taken, status, content, **more))

    async def running(self, count: int = 2, **asked: Any) -> tuple[UUID, list[Taken]]:
        """Fork a batch and take its children in hand."""
        batch = await self.fork(*[task(instruction=str(n)) for n in range(count)], **asked)
        await self.dispatch()
        return batch, await self.children()

    # Looking

    async def batch(self, id: UUID) -> BatchRecord:
        async with self.db.session() as tx:
            [record] = await read.batches(tx, [id], tenant=TENANT)
        return record

    async def tasks_of(self, id: UUID) -> list[TaskRecord]:
        async with self.db.session() as tx:
            return await read.tasks(tx, id)

    async def statuses(self, id: UUID) -> list[str]:
        return [each.status for each in await self.tasks_of(id)]

    async def result(self, id: UUID) -> dict[str, Any]:
        record = await self.batch(id)
        return rules.result(record.status, await self.tasks_of(id), limit=self.owner.terms.card_limit)

    async def told(self, call: str = CALL) -> list[dict[str, Any]]:
        """Return what the parent got: never more than one."""
        rows = await self.rows(
            "select content from ferryman.cards where tool_call_id = $1 and type = 'tool.result'", call
        )
        return [json.loads(row["content"]) for row in rows]

    async def counts(self) -> list[int]:
        tables = ("pmo_batches", "pmo_batch_tasks", "boxes", "cards", "agents", "execution_edges", "events")
        return [await self.value(f"select count(*) from ferryman.{table}") for table in tables]

    async def tick_batches(self, *names: str) -> watchdog.Report:
        every = watch.rules(self.owner, NoDoorbell(), sweep=SECOND)
        chosen = [rule for rule in every if not names or rule.name in names]
        assert len(chosen) == len(names or every)
        async with self.db.session() as ground:
            return await watchdog.tick(ground, chosen)

    async def broken(self) -> list[invariants.Violation]:
        every = [*KERNEL_INVARIANTS, *TASK_INVARIANTS, *AGENT_INVARIANTS, *watch.BATCH_INVARIANTS]
        async with self.db.transaction() as tx:
            return await invariants.check(tx, every)


def caller_of(taken: Taken, call: str = CALL, **more: Any) -> Caller:
    """Return who forks from this turn."""
    return Caller(
        tenant=taken.tenant, agent_id=taken.agent_id, turn=taken.id, epoch=taken.epoch, tool_call_id=call,
        depth=taken.depth, context_box=taken.context_box_id, output_box=taken.output_box_id, **more,
    )  # fmt: skip


def seconds(value: float) -> timedelta:
    return timedelta(seconds=value)
