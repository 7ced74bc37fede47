"""A stranger's open transaction holds what an end is owed to: that end waits, and nothing else does (K6, K25, ADR 11)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from ferryman import Context, Ferryman, Message, Turn
from ferryman.kernel.db import Tx
from ferryman.tasks import store
from ferryman.tasks.model import Ended
from ferryman.tasks.rules import request
from tests.agents.crew import send
from tests.crash import cargo
from tests.patience import PATIENCE_SECONDS

pytestmark = [pytest.mark.contract("K6", "K25"), pytest.mark.usefixtures("endless_waits")]

# A statement of such a worker is given up after 0.8 s.
HASTY: dict[str, Any] = {"worker": {"lease": "3s", "poll": "50ms", "concurrency": 8}}


class Harbour:
    """An app whose work waits for the test, and whose other work does not."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.app = Ferryman(url, **HASTY)
        self.begun, self.go = asyncio.Event(), asyncio.Event()
        self.app.task(self.plain)

        @self.app.agent
        async def idler(turn: Turn) -> str:
            return "done"

    async def plain(self) -> int:
        return 1

    async def wait(self) -> int:
        """Do what every test of this file does in its work: say that it runs, and end when it is told."""
        self.begun.set()
        await self.go.wait()
        return 7

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[Ferryman]:
        async with self.app, self.app.worker():
            yield self.app
        assert await cargo.broken(self.url) == []

    async def begins(self, do: Callable[[], Awaitable[Any]] | None = None) -> None:
        """Wait for the work that waits, and see other work done beside it."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            await self.begun.wait()
            await (do or self._one)()

    @asynccontextmanager
    async def held(self, lock: Callable[[asyncpg.Connection[Any]], Awaitable[Any]]) -> AsyncIterator[None]:
        """Let a stranger hold something, and then end what owes its end to it."""
        stranger = await asyncpg.connect(self.url)
        transaction = stranger.transaction()
        await transaction.start()
        try:
            assert await lock(stranger)
            self.go.set()
            yield
        finally:
            await transaction.rollback()
            await stranger.close()

    async def claims_go_on(self, do: Callable[[], Awaitable[Any]] | None = None) -> None:
        """See other work done, for longer than a statement may take: a worker that stands still does none of it."""
        end = time.monotonic() + 2.5
        async with asyncio.timeout(PATIENCE_SECONDS):
            while time.monotonic() < end:
                await (do or self._one)()

    async def _one(self) -> None:
        assert await (await self.app.tasks.create(self.plain)).result() == 1

    async def events(self, id: UUID, state: str) -> int:
        """Count how often something came to a state."""
        async with self.app.database.session() as tx:
            [row] = await tx.fetch(
                "select count(*) as count from ferryman.events where subject = $1 and to_state = $2", id, state
            )
        return int(row["count"])


@pytest.fixture
def harbour(database_url: str) -> Harbour:
    return Harbour(database_url)


def locking(query: str, *given: Any) -> Callable[[asyncpg.Connection[Any]], Awaitable[Any]]:
    return lambda stranger: stranger.fetch(query, *given)


async def test_a_parent_that_a_caller_cancels_in_an_open_transaction(harbour: Harbour) -> None:
    harbour.app.task(name="child")(harbour.wait)

    @harbour.app.task
    async def flow(ctx: Context) -> int:
        return int(await ctx.child("child"))

    async with harbour.at_work() as app:
        parent = await app.tasks.create(flow)
        await harbour.begins()

        async def cancel(stranger: asyncpg.Connection[Any]) -> bool:
            await app.tasks.cancel(parent.id, connection=stranger)
            return True

        async with harbour.held(cancel):
            await harbour.claims_go_on()

        assert await parent.result(timeout=PATIENCE_SECONDS) == 7
        async with app.database.session() as tx:
            [row] = await tx.fetch("select id, epoch from ferryman.tasks where callback = 'child'")
        assert (row["epoch"], await harbour.events(row["id"], "succeeded")) == (1, 1)


async def test_a_child_of_what_ends(harbour: Harbour) -> None:
    """The end of a parent cancels its children, and locks them when it was written itself."""
    begun = asyncio.Event()

    @harbour.app.task
    async def child() -> None:
        begun.set()
        await asyncio.Event().wait()

    @harbour.app.task
    async def flow(ctx: Context) -> int:
        left = ctx.child("child")
        await ctx.step("begun", begun.wait)
        assert left is not None
        return await harbour.wait()

    async with harbour.at_work() as app:
        parent = await app.tasks.create(flow)
        await harbour.begins()

        async with harbour.held(locking("select from ferryman.tasks where callback = 'child' for update")):
            await harbour.claims_go_on()

        assert await parent.result(timeout=PATIENCE_SECONDS) == 7
        assert await harbour.events(parent.id, "succeeded") == 1


class Ledger:
    """An owner of a user's own, who waits for the rows of a table."""

    async def lock(self, tx: Tx, refs: Sequence[str]) -> None:
        await tx.fetch("select from public.ledger where ref = any($1) order by ref for update", list(refs))

    async def settle(self, tx: Tx, ended: Sequence[Ended]) -> None:
        for each in ended:
            await tx.fetch("update public.ledger set ends = ends + 1 where ref = $1", each.callback_ref)


async def test_a_row_that_a_users_own_owner_waits_for(harbour: Harbour) -> None:
    harbour.app.on_end("ledger", Ledger())
    harbour.app.task(name="owing")(harbour.wait)
    async with harbour.at_work() as app:
        async with app.database.session() as tx:
            await tx.fetch("create table public.ledger (ref text primary key, ends integer not null default 0)")
            await tx.fetch("insert into public.ledger (ref) values ('free'), ('held')")
        for ref in ("free", "held"):
            draft = request.draft(
                tenant="default", name="owing", payload="{}", defaults=request.Defaults(),
                callback="ledger", callback_ref=ref,
            )  # fmt: skip
            async with app.database.session() as tx:
                await store.create(tx, [draft.task], ends_after=timedelta(days=1))
        await harbour.begins()

        async def ends() -> dict[str, int]:
            async with app.database.session() as tx:
                return {row["ref"]: row["ends"] for row in await tx.fetch("select ref, ends from public.ledger")}

        async with harbour.held(locking("select from public.ledger where ref = 'held' for update")):
            await harbour.claims_go_on()
            assert await ends() == {"free": 1, "held": 0}

        async with asyncio.timeout(PATIENCE_SECONDS):
            while (await ends())["held"] == 0:
                pass
        assert await ends() == {"free": 1, "held": 1}


async def test_a_command(harbour: Harbour) -> None:
    @harbour.app.on_command("Ask")
    async def ask(command: Any) -> list[Message]:
        return [Message("Work")]

    @harbour.app.capability("Work")
    async def work() -> dict[str, int]:
        return {"n": await harbour.wait()}

    async with harbour.at_work() as app:
        sent = await app.commands.send("Ask")
        await harbour.begins()

        async with harbour.held(locking("select from ferryman.command_inbox where id = $1 for update", sent.id)):
            await harbour.claims_go_on()

        ended = await app.commands.wait(sent.id, timeout=PATIENCE_SECONDS)
        assert (ended.status, await harbour.events(sent.id, "COMPLETED")) == ("COMPLETED", 1)


async def test_the_head_of_an_agent_that_waits_for_a_tool(harbour: Harbour) -> None:
    @harbour.app.tool
    async def tool() -> int:
        return await harbour.wait()

    @harbour.app.agent
    async def asker(turn: Turn) -> Any:
        return await turn.call_tool("tool")

    async with harbour.at_work() as app:
        turn = await send(app, "asker")
        await harbour.begins()

        async with harbour.held(locking("select from ferryman.agent_state_head where agent_id = 'asker-1' for update")):
            await harbour.claims_go_on()

        found = await turn.end(timeout=PATIENCE_SECONDS)
        assert (found.turn_status, await turn.deliverable(found)) == ("success", 7)


@pytest.mark.parametrize("what", ["batch", "parent"])
async def test_a_batch_or_its_parent(harbour: Harbour, what: str) -> None:
    @harbour.app.agent
    async def child(turn: Turn) -> dict[str, int]:
        return {"n": await harbour.wait()}

    @harbour.app.agent
    async def parent(turn: Turn) -> Any:
        return await turn.fork_join(tasks=[{"target_strategy": "new", "target_ref": "child", "instruction": "go"}])

    rows = {
        "batch": locking("select from ferryman.pmo_batches for update"),
        "parent": locking("select from ferryman.agent_state_head where agent_id = 'parent-1' for update"),
    }
    async with harbour.at_work() as app:
        turn = await send(app, "parent")

        async def idle() -> None:
            assert (await (await send(app, "idler")).end()).turn_status == "success"

        await harbour.begins(idle)
        async with harbour.held(rows[what]):
            await harbour.claims_go_on(idle)

        found = await turn.end(timeout=PATIENCE_SECONDS)
        assert found.turn_status == "success"
        async with app.database.session() as tx:
            [batch] = await tx.fetch("select id from ferryman.pmo_batches")
        assert await harbour.events(batch["id"], "success") == 1
