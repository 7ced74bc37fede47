"""Two tenants with something in every domain, and a look at everything that is stored."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from ferryman import Command, Context, Ferryman, Message, Turn
from ferryman.ingest.ports import Page, Request, Written
from tests.access.atlas import NOBODY, Operation

DAWN = datetime(2026, 1, 1, tzinfo=UTC)
KEY = "0123456789abcdef0123456789abcdef"
# What a name in a path stands for, and where the town has one of it.
HOMES = {
    "agent_id": "agents.agent_id",
    "async_task_id": "async_tasks.id",
    "batch_id": "pmo_batches.id",
    "box_id": "boxes.id",
    "card_id": "cards.id",
    "command_id": "command_inbox.id",
    "correlation_id": "command_inbox.id",
    "delivery_id": "webhook_deliveries.id",
    "id": "ingest_plan.id",
    "name": "queues.name",
    "plan_id": "ingest_plan.id",
    "schedule_id": "schedules.schedule_id",
    "task_id": "tasks.id",
    "token_id": "access_tokens.id",
    "tool_call_id": "turn_waiting_tools.tool_call_id",
    "turn_id": "agent_inbox.id",
    "webhook": "webhooks.name",
}
# Nobody has worked here, called a receiver or made a token.
ABSENT = frozenset({"async_task_id", "consumer", "delivery_id", "token_id", "tool_call_id"})
# When something was used, seen or looked at is no part of what somebody asked for.
RESTLESS = frozenset({"workers", "watchdog", "settings", "access_tokens", "ingest_gates", "consumers"})
# What makes something new, as the town would ask for it.
RIGHT: dict[str, Any] = {
    "POST /v1/agents/{agent_id}/turns": {"instruction": "word"},
    "POST /v1/batches": {"tasks": [{"target_strategy": "new", "target_ref": "clerk", "instruction": "word"}]},
    "POST /v1/commands": {"command_type": "Town.Request"},
    "POST /v1/ingest/plans": {"source": "shop", "since": "2026-01-01T00:00:00Z", "until": "2026-01-01T01:00:00Z"},
    "POST /v1/schedules": {"name": "greet", "schedule_type": "every", "interval": 3600},
    "POST /v1/tasks": {"name": "greet"},
    "POST /v1/tasks/bulk": {"tasks": [{"name": "greet"}]},
    "POST /v1/webhooks": {"url": "https://example.com/word"},
}

# As a handler would have said it: what hangs on a task has no tenant of its own.
SAID = (
    "insert into ferryman.task_logs (task, at, attempt, level, message) values ($1, ferryman.clock(), 1, 'info', $2)",
    "insert into ferryman.task_progress (id, percent, at, message) values ($1, 50, ferryman.clock(), $2)",
    "insert into ferryman.task_steps (task, at, nth, position, kind, name, state, result)"
    " values ($1, ferryman.clock(), 1, 1, 'step', 'look', 'done', to_jsonb($2::text))",
)


class Sink:
    same_database = True

    async def write(self, tx: Any, items: Any, *, batch_key: str) -> Written:
        return Written(len(items))


def furnish(app: Ferryman) -> Ferryman:
    """Declare something of every kind."""

    @app.task
    async def greet(payload: Any, ctx: Context) -> Any:
        return payload

    @app.tool(external=True)
    def approve(text: str) -> None: ...

    @app.agent(tools=["approve"])
    async def clerk(turn: Turn) -> dict[str, Any]:
        return {"said": turn.instruction}

    @app.on_command("Town.Request")
    async def asked(command: Command) -> Message:
        return Message("Town.Work", {})

    @app.capability("Town.Work")
    async def work() -> str:
        return "done"

    @app.source(name="shop", endpoint="orders", sink=Sink(), safety_lag=timedelta(0))
    async def orders(request: Request) -> Page:
        return Page([])

    return app


async def settle(app: Ferryman, tenant: str, word: str) -> None:
    """Give a tenant something in every domain; `word` stands in its contents, and in no name."""
    doors = app.of(tenant)
    task = await doors.tasks.create("greet", {"word": word}, task_id=f"{tenant}-task")
    await doors.tasks.create("greet", {"word": word}, idempotency_key=f"{tenant}-key")
    await doors.tasks.send_event(task.id, "go", {"word": word})
    async with app.database.session() as tx:
        for said in SAID:
            await tx.fetch(said, task.id, word)
    await doors.tasks.cancel((await doors.tasks.create("greet", {"word": word})).id, reason=word)
    await doors.schedules.create("greet", {"word": word}, every=3600, schedule_id=f"{tenant}-schedule")
    await doors.agents.ensure(f"{tenant}-agent", "clerk", metadata={"word": word})
    await doors.agents.send(f"{tenant}-agent", {"word": word})
    await doors.agents.send(f"{tenant}-agent", {"word": word})
    await doors.batches.fork(
        [{"target_strategy": "new", "target_ref": "clerk", "instruction": word}], channel=f"{tenant}-channel"
    )
    await doors.commands.send("Town.Request", {"word": word}, idempotency_key=f"{tenant}-command")
    await doors.ingest.plan("shop", since=DAWN, until=DAWN + timedelta(hours=2), params={"step_seconds": 3600})
    await doors.webhooks.add(f"https://example.com/{word}", name=f"{tenant}-hook")
    await app.queues.set("default", tenant=tenant, concurrency=7)


async def tables(app: Ferryman) -> dict[str, list[str]]:
    """Return the tables, and the columns of each."""
    async with app.database.session() as tx:
        rows = await tx.fetch(
            "select c.relname as name, a.attname as column, format_type(a.atttypid, null) as type"
            " from pg_class as c join pg_attribute as a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped"
            " where c.relnamespace = 'ferryman'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition"
            " order by 1, a.attnum"
        )
    found: dict[str, list[str]] = {}
    for row in rows:
        found.setdefault(row["name"], []).append(f"{row['column']}:{row['type']}")
    return found


async def ids_of(app: Ferryman, tenant: str) -> dict[str, str]:
    """Return an id or a name from each place in the rows of a tenant where there is one."""
    found: dict[str, str] = {}
    async with app.database.session() as tx:
        for table, columns in (await tables(app)).items():
            names = [each.partition(":") for each in columns]
            if "tenant" not in {name for name, _, _ in names}:
                continue
            for name, _, kind in names:
                if kind == "uuid" or (kind == "text" and name.endswith(("_id", "name", "source", "key"))):
                    rows = await tx.fetch(
                        f"select distinct {name}::text as id from ferryman.{table} where tenant = $1 and {name} is not null"
                        " order by 1 limit 1",
                        tenant,
                    )
                    found |= {f"{table}.{name}": row["id"] for row in rows}
    return found


async def _uuids(tx: Any, known: dict[str, list[str]], tenant: str) -> list[UUID]:
    """Return every uuid in the rows of a tenant."""
    found: set[UUID] = set()
    for table, columns in known.items():
        for name, _, kind in (each.partition(":") for each in columns if "tenant:text" in columns):
            if kind == "uuid":
                rows = await tx.fetch(f"select distinct {name} as id from ferryman.{table} where tenant = $1", tenant)
                found |= {row["id"] for row in rows if row["id"] is not None}
    return sorted(found)


def home(operation: Operation, ids: dict[str, str]) -> str:
    """Return an address at which each place in the path names something that is there, as far as there is one."""
    return operation.target(lambda each: ids.get(HOMES.get(each["name"], ""), str(NOBODY)))


async def state(app: Ferryman, *, tenant: str | None = None) -> dict[str, str]:
    """Return a fingerprint of each table: of all rows, or of those of one tenant and what hangs on them."""
    found = {}
    chosen: str
    given: tuple[Any, ...]
    known = await tables(app)
    async with app.database.session() as tx:
        theirs = [] if tenant is None else await _uuids(tx, known, tenant)
        for table, columns in known.items():
            owned = "tenant:text" in columns
            hangs = [name for name, _, kind in (each.partition(":") for each in columns) if kind == "uuid"]
            if table in RESTLESS or (tenant is not None and not owned and not hangs):
                continue
            if tenant is None:
                chosen, given = "", ()
            elif owned:
                chosen, given = "where tenant = $1", (tenant,)
            else:
                chosen, given = "where " + " or ".join(f"{name} = any($1)" for name in hangs), (theirs,)
            [row] = await tx.fetch(
                f"select count(*) || ' ' || coalesce(md5(string_agg(t::text, ' ' order by t::text)), '') as print"
                f" from ferryman.{table} as t {chosen}",
                *given,
            )
            found[table] = row["print"]
    return found
