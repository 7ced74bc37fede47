"""`ferryman.create_tasks`: the same checks, codes and answers as the door in Python, for any language (K16)."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import psycopg
import pytest

from ferryman import Ferryman
from ferryman.app import wiring
from ferryman.kernel import doorbell_pg, errors, invariants, migrate
from ferryman.kernel.retry import Backoff
from tests.patience import PATIENCE_SECONDS

STATES = {
    "TASK_INVALID_REQUEST": "FM010",
    "TASK_INVALID_SCHEDULE": "FM011",
    "TASK_INVALID_PAYLOAD": "FM012",
    "TASK_DUPLICATE": "FM013",
    "TASK_QUEUE_FULL": "FM014",
}
LATER = "2030-01-01T00:00:00Z"


@pytest.fixture
async def app(database_url: str) -> AsyncIterator[Ferryman]:
    async with Ferryman(database_url) as opened:
        yield opened


@pytest.fixture
async def sql(database_url: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(database_url)
    yield connection
    await connection.close()


async def create(sql: Any, asked: Any) -> list[Any]:
    rows: list[Any] = await sql.fetch("select * from ferryman.create_tasks($1::text::jsonb)", json.dumps(asked))
    return rows


async def refused(sql: Any, asked: Any) -> tuple[str, dict[str, Any]]:
    with pytest.raises(asyncpg.PostgresError) as told:
        await create(sql, asked)
    assert told.value.sqlstate == STATES[told.value.message]
    assert await sql.fetchval("select count(*) from ferryman.tasks") == 0
    detail: dict[str, Any] = json.loads(told.value.detail or "")
    assert told.value.hint == detail["message"]
    return told.value.message, detail


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


WRONG: dict[str, list[Any]] = {
    "name": ["", "a b", "é", "a\n", "x" * 201, 5, True, [], {}],
    "queue": ["", "a b"],
    "task_id": ["", "a b", 5, []],
    "idempotency_key": ["", " ", "\u00a0", "a\tb", "\u2028", "\x7f", "x" * 201, 5, {}],
    "idempotency_scope": ["s"],
    "priority": [-10, 10, 1.5, 1.0, "1", True, [], 10**30],
    "timeout_ms": [0, -1, 31536000001, 1.5, "9", 10**25],
    "max_retries": [-1, 10001, "3", 2.5],
    "schedule_type": ["at", "cron", "daily", "every", "soon", "", 5, True, {}],
    "scheduled_at": [LATER],
    "ends_at": ["2030-01-01T00:00:00", 5],
    "backoff": [
        -1, "5", True, [], [1, -1], [1, "2"], [1] * 1001, 31536001, {"kind": "odd"}, {"kind": "fixed", "factor": 2},
        {"base_seconds": -1}, {"base_seconds": "1"}, {"factor": 0.5}, {"factor": 1001}, {"jitter": 2}, {"jitter": None},
        {"base_seconds": 90, "cap_seconds": 80}, {"kind": "list"}, {"kind": "list", "delays_seconds": 5}, {"odd": 1},
        {"kind": "list", "delays_seconds": [1], "base_seconds": 1},
    ],
    "limit_key": ["", 5],
    "singleton": ["a\tb", 5],
    "debounce": [0, 86401, "5", True, {}],
    "debounce_key": ["k"],
    "payload": [
        {"n": 2**63}, {"n": [0, {"m": -(2**63) - 1}]}, deep(129), {"a": deep(128)}, "x" * (1024 * 1024),
    ],
    "colour": ["red"],
    "Name": ["mail"],
    "callback": ["batch"],
}  # fmt: skip
NO_TIMES: list[Any] = [
    "2030-01-01T00:00:00", "2030-01-01", "tomorrow", "", 5, True, "2030-13-01T00:00:00Z", "2030-02-30T00:00:00Z",
    "2030-01-01T25:00:00Z", "2030-01-01T00:60:00Z", "9999-01-01T00:00:00Z", "infinity", "now", "2030-01-01T00:00:00 UTC",
    "2030-01-01T00:00:00+99:00", {},
]  # fmt: skip
BAD: list[Any] = [
    *({field: wrong} for field, wrongs in WRONG.items() for wrong in wrongs),
    *({"schedule_type": "at", "scheduled_at": wrong} for wrong in NO_TIMES),
    {"schedule_type": "cron", "scheduled_at": LATER},
    {"schedule_type": "at", "scheduled_at": LATER, "ends_at": LATER},
    {"idempotency_key": "k", "idempotency_scope": ""},
    {"debounce": 5, "debounce_key": "a\tb"},
    {"debounce": 86000, "ends_at": "2020-01-01T00:00:00Z"},
    5,
    "mail",
    True,
]


@pytest.mark.contract("K16", "K13", "K20")
@pytest.mark.parametrize("asked", BAD, ids=lambda asked: ascii(asked)[:60])
async def test_what_the_door_refuses_is_refused_with_the_same_code_and_field(
    sql: Any, app: Ferryman, asked: Any
) -> None:
    with pytest.raises(errors.FerrymanError) as door:
        await app.tasks.accept(asked)

    code, detail = await refused(sql, asked)

    assert code == door.value.code
    assert detail.get("field") == door.value.details.get("field")
    assert detail.get("path") == door.value.details.get("path")
    assert detail["place"] == 1


GOOD: list[dict[str, Any]] = [
    {},
    {"name": "mail", "payload": None},
    {"name": "a.b:c-d_E9", "queue": "q", "priority": -9, "timeout_ms": 1, "max_retries": 0, "payload": [1, "é", None, 1.5]},
    {"name": "x" * 200, "payload": {"n": 2**63 - 1, "m": -(2**63), "deep": deep(126)}},
    {"payload": deep(128)},
    {"payload": "text with [[[ {{{ and 12345678901234567890123 in it"},
    {"task_id": "mine", "idempotency_key": "clé 鍵", "idempotency_scope": "s p a c e"},
    {"task_id": "0190f000-0000-7000-8000-00000000000f"},
    {"task_id": "0190F000-0000-7000-8000-00000000000F"},
    {"schedule_type": "at", "scheduled_at": LATER, "ends_at": "2031-01-01T00:00:00+02:00"},
    {"schedule_type": "at", "scheduled_at": "2020-01-01T00:00:00.5-0130"},
    {"schedule_type": "at", "scheduled_at": "2030-06-01T12:30Z"},
    {"limit_key": "k", "singleton": "s"},
    {"name": "mail", "singleton": True},
    {"singleton": False, "debounce": None, "limit_key": None, "debounce_key": None},
    {"name": "mail", "debounce": 60.5},
    {"debounce": 60, "debounce_key": "d", "schedule_type": "at", "scheduled_at": LATER},
    {"debounce": 60, "schedule_type": "at", "scheduled_at": "2020-01-01T00:00:00Z"},
    *(
        {"backoff": fit}
        for fit in (
            None, 0, 2.5, [1, 2, 0], {}, {"kind": "fixed"}, {"base_seconds": 90}, {"factor": 3, "jitter": 0},
            {"kind": "list", "delays_seconds": [5]}, {"cap_seconds": 10},
        )
    ),
]  # fmt: skip
ROW = """
select tenant, queue, name, payload, priority, timeout_ms, max_retries, schedule_type, scheduled_at, task_id, idempotency_key,
       idempotency_scope, backoff, state, attempt, epoch, lease_count, callback, rank - created_at as rank,
       case when debounce is null then wake_at end as wake_at, wake_at - due_at as waking, limit_key, singleton, debounce,
       due_at - case when schedule_type is null then created_at else due_at end as due,
       ends_at - case when schedule_type is null or due_at < created_at then created_at else due_at end as ends,
       updated_at - created_at as updated
from ferryman.tasks where id = $1
"""


@pytest.mark.contract("K16", "T1", "T8", "T21")
@pytest.mark.parametrize("asked", GOOD, ids=lambda asked: ascii(asked)[:60])
async def test_what_the_door_stores_is_stored_the_same(sql: Any, app: Ferryman, asked: dict[str, Any]) -> None:
    by_door = await app.tasks.accept(asked)
    row = dict(await sql.fetchrow(ROW, by_door.id))
    await sql.execute("delete from ferryman.tasks")

    [made] = await create(sql, asked)
    mine = dict(await sql.fetchrow(ROW, made["id"]))
    logged = await sql.fetch(
        "select tenant, kind, from_state, to_state, attempt, subject_name from ferryman.events order by id"
    )

    assert same_backoff(mine.pop("backoff"), row.pop("backoff"))
    assert mine == row
    assert logged[1] == logged[0]
    assert (made["task_id"], made["state"], made["idempotent_hit"]) == (
        asked.get("task_id") or str(made["id"]), by_door.task.state, False,
    )  # fmt: skip


def same_backoff(one: str | None, other: str | None) -> bool:
    if one is None or other is None:
        return one is other
    return Backoff.parse(json.loads(one)) == Backoff.parse(json.loads(other))


@pytest.mark.contract("K16", "T12")
@pytest.mark.parametrize(
    ("first", "second", "answer"),
    [
        ({"idempotency_key": "k"}, {"idempotency_key": "k", "payload": [1]}, True),
        ({"idempotency_key": "k", "idempotency_scope": "s"}, {"idempotency_key": "k"}, False),
        ({"task_id": "a"}, {"task_id": "a"}, True),
        ({"task_id": "a"}, {"task_id": "a", "tenant": "other"}, False),
        (
            {"task_id": "0190f000-0000-7000-8000-00000000000f"},
            {"task_id": "0190f000-0000-7000-8000-00000000000f"},
            True,
        ),
        ({"task_id": "a", "idempotency_key": "k"}, {"task_id": "b", "idempotency_key": "k"}, True),
        ({"idempotency_key": "k", "max_retries": 2}, {"idempotency_key": "k", "max_retries": 2}, True),
        ({"idempotency_key": "k", "max_retries": 2}, {"idempotency_key": "k", "max_retries": 1}, ["max_retries"]),
        ({"idempotency_key": "k"}, {"idempotency_key": "k", "timeout_ms": 5}, ["timeout_ms"]),
        (
            {"task_id": "a"},
            {"task_id": "a", "schedule_type": "at", "scheduled_at": LATER},
            ["schedule_type", "scheduled_at"],
        ),
        (
            {"task_id": "a", "schedule_type": "at", "scheduled_at": LATER},
            {"task_id": "a", "schedule_type": "at", "scheduled_at": "2030-01-01T01:00:00+01:00"},
            True,
        ),
    ],
    ids=str,
)
@pytest.mark.parametrize("together", [True, False])
async def test_a_repeat_is_a_hit_or_a_conflict_that_names_the_fields(
    sql: Any, first: dict[str, Any], second: dict[str, Any], answer: Any, together: bool
) -> None:
    async def ask() -> list[Any]:
        if together:
            return await create(sql, [first, second])
        return [*await create(sql, first), *await create(sql, second)]

    if isinstance(answer, list):
        with pytest.raises(asyncpg.PostgresError) as told:
            await ask()
        detail = json.loads(told.value.detail or "")
        assert (told.value.sqlstate, told.value.message) == ("FM013", "TASK_DUPLICATE")
        assert detail["conflict_fields"] == answer
        assert detail["existing"]["state"] in {"ready", "pending"}
        assert await sql.fetchval("select count(*) from ferryman.tasks") == (0 if together else 1)
        return
    born, again = await ask()
    assert (born["idempotent_hit"], again["idempotent_hit"]) == (False, answer)
    assert (born["id"] == again["id"]) is answer
    assert await sql.fetchval("select count(*) from ferryman.events") == (1 if answer else 2)


@pytest.mark.contract("K16", "T12")
async def test_a_task_id_and_a_key_that_hit_different_tasks_are_a_conflict(sql: Any) -> None:
    await create(sql, [{"task_id": "a"}, {"idempotency_key": "k"}])

    with pytest.raises(asyncpg.PostgresError) as told:
        await create(sql, {"task_id": "a", "idempotency_key": "k"})

    assert json.loads(told.value.detail or "")["conflict_fields"] == ["task_id", "idempotency_key"]


@pytest.mark.contract("K16", "K12")
async def test_an_id_of_another_tenant_is_a_conflict_that_shows_nothing(sql: Any) -> None:
    id = str(uuid4())
    await create(sql, {"task_id": id, "tenant": "acme"})

    with pytest.raises(asyncpg.PostgresError) as told:
        await create(sql, {"task_id": id})

    assert (told.value.message, "existing" in json.loads(told.value.detail or "")) == ("TASK_DUPLICATE", False)


@pytest.mark.contract("K16")
async def test_a_hundred_with_one_key_at_the_same_time_make_one_task(database_url: str, sql: Any) -> None:
    async def one() -> bool:
        connection = await asyncpg.connect(database_url)
        try:
            return bool((await create(connection, {"idempotency_key": "k"}))[0]["idempotent_hit"])
        finally:
            await connection.close()

    hits = await asyncio.gather(*(one() for _ in range(40)))

    assert sorted(hits) == [False] + [True] * 39
    assert await sql.fetchval("select count(*) from ferryman.tasks") == 1


@pytest.mark.contract("K16")
async def test_answers_stand_in_the_order_of_the_requests(sql: Any) -> None:
    made = await create(sql, [{"task_id": f"t{n % 700}", "idempotency_key": f"k{n * 7919 % 1000}"} for n in range(700)])

    assert [(each["place"], each["task_id"]) for each in made] == [(n + 1, f"t{n}") for n in range(700)]


@pytest.mark.contract("K16")
@pytest.mark.parametrize("ending", ["commit", "rollback", "rollback to savepoint doubt"])
async def test_plain_sql_creates_in_its_own_transaction(database_url: str, sql: Any, ending: str) -> None:
    with psycopg.connect(database_url) as caller:
        caller.execute("create table public.orders (number integer)")
        caller.execute("savepoint doubt")
        caller.execute("""select ferryman.create_tasks('{"name": "mail", "payload": {"to": "ada"}}')""")
        before = await sql.fetchval("select count(*) from ferryman.tasks")
        caller.execute(ending)
        caller.commit()

    assert before == 0
    assert await sql.fetchval("select count(*) from ferryman.tasks") == (1 if ending == "commit" else 0)
    assert await sql.fetchval("select count(*) from ferryman.events") == (1 if ending == "commit" else 0)


@pytest.mark.contract("K16", "K2")
async def test_it_rings_at_the_commit_unless_that_is_switched_off(database_url: str, sql: Any) -> None:
    heard: list[Any] = []
    ear = await asyncpg.connect(database_url)
    await ear.add_listener(doorbell_pg.channel("ferryman"), lambda *told: heard.append(doorbell_pg.parse(str(told[3]))))

    await create(sql, [{"queue": "b"}, {"queue": "a"}, {"schedule_type": "at", "scheduled_at": LATER}, {"queue": "a"}])
    await create(sql, {"task_id": "x"})
    await create(sql, {"task_id": "x"})
    await ear.execute("select 1")
    rung = list(heard)
    await sql.execute("insert into ferryman.settings values ('ring_within', 'false')")
    await create(sql, {})
    await ear.execute("select 1")
    await ear.close()

    assert rung == [
        ("", "ready", frozenset({"a\x1fdefault", "b\x1fdefault"})),
        ("", "due", frozenset()),
        ("", "ready", frozenset({"default\x1fdefault"})),
    ]
    assert heard == rung


@pytest.mark.contract("K16")
async def test_a_worker_runs_what_it_made_and_its_settings_are_the_defaults(database_url: str, sql: Any) -> None:
    app = Ferryman(database_url, tasks={"max_retries": 7, "timeout": "9s", "ends_after": "1h", "payload_limit": 64})

    @app.task
    async def greet(name: str) -> str:
        return f"Hello, {name}"

    async with app, app.worker():
        first = await app.tasks.create(greet, name="Bob")
        await first.result(timeout=PATIENCE_SECONDS)  # whoever works has written down its settings before

        [made] = await create(sql, {"name": "greet", "payload": {"name": "Ada"}})
        handle = await app.tasks.get(made["id"])
        assert await handle.result(timeout=PATIENCE_SECONDS) == "Hello, Ada"
        with pytest.raises(asyncpg.PostgresError, match="TASK_INVALID_PAYLOAD"):
            await create(sql, {"payload": "x" * 64})

    assert (handle.task.max_retries, handle.task.timeout_ms) == (7, 9000)
    assert handle.task.ends_at - handle.task.due_at == timedelta(hours=1)


@pytest.mark.contract("K16", "K23")
async def test_what_is_true_of_all_tasks_is_true_of_these(sql: Any, app: Ferryman) -> None:
    await create(
        sql, [{"task_id": "a"}, {"task_id": "a"}, {"schedule_type": "at", "scheduled_at": LATER}, {"priority": 9}]
    )

    async with app.database.session() as tx:
        assert await invariants.check(tx, wiring.invariants()) == []


@pytest.mark.contract("K16", "T17")
@pytest.mark.parametrize("tenant", ["*", "default"])
async def test_a_full_queue_refuses_the_whole_call(sql: Any, tenant: str) -> None:
    await sql.execute(f"insert into ferryman.queues (name, tenant, max_depth) values ('narrow', '{tenant}', 2)")
    narrow = {"queue": "narrow"}
    later = {**narrow, "schedule_type": "at", "scheduled_at": LATER}

    code, detail = await refused(sql, [narrow, {}, narrow, later])
    assert (code, detail["queue"], detail["max_depth"]) == ("TASK_QUEUE_FULL", "narrow", 2)
    await create(sql, [{**narrow, "task_id": "a"}, narrow, {}, {"queue": "wide"}, {**narrow, "tenant": "other"}])
    assert (await create(sql, {**narrow, "task_id": "a"}))[0][
        "idempotent_hit"
    ]  # a repeat is answered however full it is
    with pytest.raises(asyncpg.PostgresError, match="TASK_QUEUE_FULL"):
        await create(sql, later)


@pytest.mark.contract("K16", "T17")
async def test_a_singleton_that_lives_is_the_answer_and_a_waiting_call_is_put_off(sql: Any, app: Ferryman) -> None:
    single = {"name": "mail", "singleton": True}
    first, again, theirs = await create(sql, [single, single, {**single, "tenant": "other"}])
    assert [row["idempotent_hit"] for row in (first, again, theirs)] == [False, True, False]
    assert (again["id"], (await app.tasks.accept(single)).id) == (first["id"], first["id"])
    await app.tasks.cancel(first["id"])
    assert (await create(sql, single))[0]["id"] != first["id"]

    quiet = {"debounce": 30, "debounce_key": "d"}
    [waiting] = await create(sql, {**quiet, "payload": 1})
    [later] = await create(sql, {**quiet, "payload": 2, "debounce": 90})
    by_door = await app.tasks.accept({**quiet, "payload": 3, "debounce": 900})
    assert (later["id"], by_door.id) == (waiting["id"], waiting["id"])
    assert (waiting["state"], later["idempotent_hit"], by_door.idempotent_hit) == ("pending", True, True)
    assert timedelta(seconds=55) < later["due_at"] - waiting["due_at"] < timedelta(seconds=90)
    assert await sql.fetchval("select payload from ferryman.tasks where id = $1", waiting["id"]) == "3"
    async with app.database.session() as tx:
        assert await invariants.check(tx, wiring.invariants()) == []


@pytest.mark.contract("K16", "T17")
async def test_twenty_with_one_singleton_at_the_same_time_make_one_task(database_url: str, sql: Any) -> None:
    async def one() -> UUID:
        connection = await asyncpg.connect(database_url)
        try:
            [row] = await create(connection, [{"singleton": "s"}])
            return row["id"]  # type: ignore[no-any-return]
        finally:
            await connection.close()

    assert len({await each for each in asyncio.as_completed([one() for _ in range(20)])}) == 1


@pytest.mark.contract("K16")
async def test_too_many_at_once_are_refused(sql: Any) -> None:
    with pytest.raises(asyncpg.PostgresError, match="TASK_INVALID_REQUEST"):
        await create(sql, [{}] * 10_001)
    with pytest.raises(asyncpg.PostgresError, match="TASK_INVALID_REQUEST"):
        await sql.fetch("select ferryman.create_tasks(null)")
    assert await create(sql, []) == []


@pytest.mark.contract("K16", "K15")
async def test_it_lives_in_any_schema(empty_database_url: str) -> None:
    schema = "a" * 60
    await migrate.migrate(empty_database_url, schema=schema)
    connection, heard = await asyncpg.connect(empty_database_url), []
    await connection.add_listener(doorbell_pg.channel(schema), lambda *told: heard.append(told[3]))

    [made] = await connection.fetch(f"select * from {schema}.create_tasks('[{{}}]')")
    await connection.execute("select 1")
    await connection.close()

    assert made["state"] == "ready"
    assert len(heard) == 1


@pytest.mark.contract("K16")
async def test_ids_grow_and_are_of_version_7(sql: Any) -> None:
    ids = [
        UUID(str(row["id"])) for row in await sql.fetch("select ferryman.new_id() as id from generate_series(1, 2000)")
    ]

    assert {(each.version, each.variant) for each in ids} == {(7, "specified in RFC 4122")}
    assert len(set(ids)) == 2000
    now = datetime.now(UTC).timestamp() * 1000
    assert all(abs((each.int >> 80) - now) < 60_000 for each in ids)
    later = await sql.fetchval("select ferryman.new_id() from pg_sleep(0.002)")
    assert all(each < UUID(str(later)) for each in ids)
