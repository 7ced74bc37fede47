"""What is left after requests that should not have been made (R6).

Nothing was stored on a refusal; the rest can be listed, read and worked through, and is sound.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

from ferryman import Ferryman
from ferryman.app.tokens import ALL
from ferryman.app.wiring import watched
from ferryman.kernel import invariants
from ferryman.testing import trial
from tests.access import atlas, town
from tests.access.atlas import Operation
from tests.access.wire import Wire

TENANT = "ferryman-tenant"
# Where the rows of a table are listed, and what an item is known by.
LISTS = {
    "/v1/agents": ("agents", "agent_id"),
    "/v1/batches": ("pmo_batches", "id"),
    "/v1/commands": ("command_inbox", "id"),
    "/v1/ingest/plans": ("ingest_plan", "id"),
    "/v1/schedules": ("schedules", "id"),
    "/v1/tasks": ("tasks", "id"),
    "/v1/webhooks": ("webhooks", "id"),
}
# Ends with an id, and is about what has been done for it.
OF_RUNS = frozenset({"/v1/ingest/blackbox/{id}"})
FREE = {"concurrency": None, "key_concurrency": None, "rate": None, "max_depth": None}
_NOTED = """
create function public.note() returns trigger language plpgsql as
$$ begin insert into public.noted (what) values (tg_op || ' ' || tg_table_name); return null; end $$
"""


class Noted:
    """What was written to the tables, each row that was added, changed or deleted, as far as it was committed."""

    def __init__(self, app: Ferryman) -> None:
        self._app = app
        self._last = 0

    async def since(self) -> list[str]:
        """Return what was written since the last look."""
        async with self._app.database.session() as tx:
            rows = await tx.fetch("select id, what from public.noted where id > $1 order by id", self._last)
        self._last = max((row["id"] for row in rows), default=self._last)
        return [row["what"] for row in rows]


@asynccontextmanager
async def noted(app: Ferryman) -> AsyncIterator[Noted]:
    """Note what is written, as long as the block lasts."""
    watched = [table for table in await town.tables(app) if table not in town.RESTLESS]
    async with app.database.transaction() as tx:
        await tx.fetch("create table public.noted (id bigint generated always as identity primary key, what text)")
        await tx.fetch(_NOTED)
        for table in watched:
            await tx.fetch(
                f"create trigger noted after insert or update or delete on ferryman.{table}"
                " for each row execute function public.note()"
            )
    yield Noted(app)
    async with app.database.transaction() as tx:
        await tx.fetch("drop function public.note() cascade")
        await tx.fetch("drop table public.noted")


async def values(app: Ferryman, table: str, column: str) -> set[tuple[str, str]]:
    """Return the tenant and the value of each row."""
    async with app.database.session() as tx:
        rows = await tx.fetch(f"select distinct tenant, {column}::text as value from ferryman.{table}")
    return {(row["tenant"], row["value"]) for row in rows if row["value"] is not None}


async def read(app: Ferryman, document: dict[str, Any], wire: Wire) -> int:
    """Read every row; list everything, and ask for everything by its id, as each of its tenants. Return how often it asked."""
    asked = 0
    async with app.database.session() as tx:
        for table in await town.tables(app):
            await tx.fetch(f"select * from ferryman.{table}")
    for operation in atlas.operations(document):
        if operation.method != "GET":
            continue
        if operation.path in LISTS:
            asked += await _listed(app, wire, operation)
        elif len(operation.path_names) == 1 and operation.path_names[0] in town.HOMES:
            asked += await _each(app, wire, operation)
    return asked


def _of(tenant: str) -> list[tuple[str, str]]:
    """Ask as a tenant; what belongs to all of them is asked for as nobody in particular."""
    return [] if tenant == ALL else [(TENANT, tenant)]


async def _listed(app: Ferryman, wire: Wire, operation: Operation) -> int:
    table, key = LISTS[operation.path]
    [onwards] = [each["name"] for each in operation.parameters if each["name"] in ("before", "after")]
    there = await values(app, table, key)
    found, asked = set(), 0
    for tenant in {tenant for tenant, _ in there}:
        target: str | None = f"{operation.path}?limit=100"
        while target is not None:
            answer = await wire.ask("GET", target, headers=_of(tenant))
            assert answer.status == 200, (target, tenant, answer.body)
            asked += 1
            found |= {(tenant, str(item[key])) for item in answer.json["items"]}
            further = answer.json["next"]
            target = None if further is None else f"{operation.path}?limit=100&{onwards}={quote(further, safe='')}"
    assert found == there, operation.path
    return asked


async def _each(app: Ferryman, wire: Wire, operation: Operation) -> int:
    [name] = operation.path_names
    table, _, column = town.HOMES[name].partition(".")
    there = await values(app, table, column)
    for tenant, value in there:
        target = operation.target(lambda _each, it=value: it)  # type: ignore[misc]
        answer = await wire.ask("GET", target, headers=_of(tenant))
        # What is asked for of it may not be there yet; it itself is.
        fine = {200, 202, 404, 409} if not operation.path.endswith("}") or operation.path in OF_RUNS else {200}
        assert answer.status in fine, (target, tenant, answer.status, answer.body)
    return len(there)


async def resumed(app: Ferryman, wire: Wire) -> None:
    """Let everything go on that was paused, and lift all limits of queues: else nobody could work through what is there."""
    for paused in (await wire.get("/v1/operations/handlers/paused")).json["items"]:
        target = f"/v1/operations/handlers/{quote(paused, safe='')}/resume"
        assert (await wire.post(target)).status == 200, target
    for tenant, name in await values(app, "queues", "name"):
        house = "/v1/operations/queues" if tenant == ALL else "/v1/queues"
        for method, target, body in (("POST", f"{house}/{name}/resume", None), ("PATCH", f"{house}/{name}", FREE)):
            answer = await wire.ask(method, target, body, headers=_of(tenant))
            assert answer.status == 200, (target, tenant, answer.body)


async def fired(app: Ferryman, wire: Wire) -> None:
    """Let every schedule that lives fire once and then no more: one that fires each second leaves no quiet moment."""
    async with app.database.session() as tx:
        living = await tx.fetch("select tenant, id::text as id from ferryman.schedules where state <> 'ended'")
    for row in living:
        for method, target in (
            ("POST", f"/v1/schedules/{row['id']}/trigger"),
            ("DELETE", f"/v1/schedules/{row['id']}"),
        ):
            answer = await wire.ask(method, target, headers=_of(row["tenant"]))
            assert answer.status in {200, 201}, (target, answer.body)


async def worked(app: Ferryman, url: str, *, seconds: float) -> None:
    """Let a worker that knows a handler for everything do what is due, now and after an hour; then all must be sound."""
    hand = town.furnish(Ferryman(url, doorbell="none", relays={"webhooks": "off", "webhook_key": town.KEY}))
    await _learn(app, hand)
    async with trial.opened(hand, url) as given:
        for _ in range(2):
            await given.run(timeout=seconds)
            async with hand.database.session() as tx:
                assert await invariants.check(tx, watched.invariants()) == []
            await given.travel(hours=1)


async def _learn(app: Ferryman, hand: Ferryman) -> None:
    """Teach it what requests have named that the town does not know."""
    known = {"greet", "clerk", "Town.Request"}
    teachings: list[tuple[str, Callable[[str], Any]]] = [
        ("select distinct name from ferryman.tasks where name not like '%:%'", lambda name: hand.task(name=name)),
        ("select distinct command_type as name from ferryman.command_inbox", hand.on_command),
        ("select distinct profile as name from ferryman.agents", lambda name: hand.agent(name=name)),
    ]
    async with app.database.session() as tx:
        for question, declare in teachings:
            for row in await tx.fetch(question):
                if row["name"] not in known:
                    declare(row["name"])(_nothing)
        for row in await tx.fetch("select distinct queue from ferryman.tasks where queue <> 'default'"):
            hand.queue(row["queue"])


async def _nothing(_given: Any) -> None: ...
