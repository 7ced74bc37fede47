"""A worker for turns, as a process that can be killed: each turn calls a tool once, goes on with its result, and ends."""

import asyncio
import os
import sys
from collections.abc import Collection, Sequence
from datetime import timedelta
from uuid import UUID

from ferryman import Ferryman
from ferryman.agents import intake, rules
from ferryman.agents.intake.report import TOOL, reference
from ferryman.agents.model import Call, Outcome, Taken
from ferryman.agents.states import TurnStatus
from ferryman.agents.work.worker import AgentWorker, Capacity
from ferryman.kernel import ids
from ferryman.kernel.db import Tx
from ferryman.tasks.model import Draft


class OneTool:
    """Does turns: the first time it calls a tool, after that it delivers."""

    profiles: Sequence[str] = ("writer",)

    def __init__(self, app: Ferryman, owner: object) -> None:
        self._app = app
        self._owner = owner
        self._answered: set[object] = set()

    async def prepare(self, tx: Tx, taken: Sequence[Taken]) -> None:
        """Find which turns have their answer: a turn that is taken over is replayed from what is stored."""
        for each in taken:
            calls = await intake.read.calls(tx, each.id, tenant=each.tenant)
            self._answered |= {each.id for call in calls if call.result is not None}

    def forget(self, ids: Collection[UUID]) -> None:
        """Let go of turns that are not run here after all."""
        self._answered.difference_update(ids)

    async def run(self, taken: Taken) -> Outcome:
        if taken.id in self._answered:
            return rules.end_of(taken, TurnStatus.SUCCESS, "done", owner=self._owner)  # type: ignore[arg-type]
        return rules.suspension_of(taken, [self._call(taken)], owner=self._owner)  # type: ignore[arg-type]

    def _call(self, taken: Taken) -> Call:
        name = f"call-{taken.id}"
        task, _ = self._app._open.drafts("tool", tenant=taken.tenant)
        ref = reference(taken.tenant, taken.agent_id, name)
        draft = Draft(task._replace(id=ids.new_id(), payload="{}", callback=TOOL, callback_ref=ref), frozenset())
        return Call(
            tool_call_id=name, tool_name="tool", content={}, card_id=ids.new_id(), timeout=timedelta(seconds=60), task=draft
        )  # fmt: skip


def build(url: str | None = None) -> Ferryman:
    app = Ferryman(url)

    @app.task
    async def tool() -> int:
        return 1

    return app


def worker(app: Ferryman, **capacity: int) -> AgentWorker:
    boot = ids.boot_id()
    size = Capacity(concurrency=capacity.get("concurrency", 8), claim_max=8, lanes=2, poll=app.settings.worker.poll)
    return AgentWorker(
        OneTool(app, boot), app.agents.parties, app.doorbell, line=app._open.line, capacity=size, boot_id=boot
    )


OPEN = "select count(*) as open from ferryman.agent_inbox where message_type = 'turn' and turn_status is null"


async def main() -> None:
    app = build()
    async with app, app.worker():
        turns = worker(app)
        turns.start()
        while True:
            async with app.database.session() as tx:
                [row] = await tx.fetch(OPEN)
            if row["open"] == 0:
                break
            await asyncio.sleep(0.05)
        await turns.drain(timedelta(seconds=2))
        await turns.close()


if __name__ == "__main__":
    asyncio.run(main())
    sys.stdout.flush()
    os._exit(0)
