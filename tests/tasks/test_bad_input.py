"""Bad input, and handlers that return or raise anything: a clear code, nothing stored, neighbours alive (R6, K13, K25)."""

import asyncio
import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ferryman import Ferryman
from ferryman.kernel import errors
from ferryman.tasks.states import READY, TASK
from ferryman.testing import plant
from tests.corpus.bad_payloads import VALUES
from tests.patience import PATIENCE_SECONDS
from tests.tasks import anything
from tests.tasks.anything import ANYTHING
from tests.tasks.conftest import MakeApp

AT = datetime(2030, 1, 1, tzinfo=UTC)


async def mail(payload: Any) -> str:
    return "sent"


async def nothing_is_stored(app: Ferryman) -> None:
    async with app.database.session() as tx:
        [row] = await tx.fetch(
            "select (select count(*) from ferryman.tasks) + (select count(*) from ferryman.events) as count"
        )
    assert row["count"] == 0


@pytest.mark.contract("K13", "R6")
async def test_a_payload_that_json_cannot_hold_is_refused_with_its_path(make_app: MakeApp) -> None:
    app = await make_app(mail)

    for name, value, path in VALUES:
        with pytest.raises(errors.TaskInvalidPayload) as refusal:
            await app.tasks.create(mail, value)
        assert refusal.value.details.get("path") == path, name

    await nothing_is_stored(app)


@pytest.mark.contract("K13", "R6")
async def test_a_payload_of_two_mebibytes_is_refused(make_app: MakeApp) -> None:
    app = await make_app(mail)

    with pytest.raises(errors.TaskInvalidPayload):
        await app.tasks.create(mail, "x" * 2 * 1024 * 1024)

    await nothing_is_stored(app)


LONG = "x" * 10_000
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"task_id": ""}, "task_id"),
    ({"task_id": LONG}, "task_id"),
    ({"task_id": "a b"}, "task_id"),
    ({"task_id": "a\0b"}, "task_id"),
    ({"task_id": 7}, "task_id"),
    ({"name": ""}, "name"),
    ({"name": LONG}, "name"),
    ({"name": "mäil"}, "name"),
    ({"queue": ""}, "queue"),
    ({"queue": LONG}, "queue"),
    ({"queue": []}, "queue"),
    ({"priority": 10}, "priority"),
    ({"priority": -10}, "priority"),
    ({"priority": 1.5}, "priority"),
    ({"priority": True}, "priority"),
    ({"timeout_ms": 0}, "timeout_ms"),
    ({"timeout_ms": -1}, "timeout_ms"),
    ({"timeout_ms": 2**63}, "timeout_ms"),
    ({"timeout_ms": "30000"}, "timeout_ms"),
    ({"timeout_ms": math.nan}, "timeout_ms"),
    ({"max_retries": -1}, "max_retries"),
    ({"max_retries": 2**31}, "max_retries"),
    ({"max_retries": 1.0}, "max_retries"),
    ({"idempotency_key": ""}, "idempotency_key"),
    ({"idempotency_key": LONG}, "idempotency_key"),
    ({"idempotency_key": "a\0b"}, "idempotency_key"),
    ({"idempotency_key": "\ud800"}, "idempotency_key"),
    ({"idempotency_key": 7}, "idempotency_key"),
    ({"idempotency_scope": "s"}, "idempotency_scope"),
    ({"idempotency_key": "k", "idempotency_scope": ""}, "idempotency_scope"),
    ({"ends_at": "2030-01-01T00:00:00"}, "ends_at"),
    ({"ends_at": "never"}, "ends_at"),
    ({"ends_at": 7}, "ends_at"),
    ({"schedule_type": "at", "scheduled_at": "2030-01-01T00:00:00Z", "ends_at": "2029-01-01T00:00:00Z"}, "ends_at"),
    ({"backoff": -1}, "backoff"),
    ({"backoff": "fast"}, "backoff"),
    ({"backoff": []}, "backoff"),
    ({"backoff": {"kind": "?"}}, "backoff"),
    ({"backoff": math.inf}, "backoff"),
    ({"colour": "red"}, "colour"),
    ({"state": "succeeded"}, "state"),
]


@pytest.mark.contract("R6", "K20")
async def test_a_field_that_is_wrong_is_named_and_nothing_is_stored(make_app: MakeApp) -> None:
    app = await make_app((mail, {"default": True}))

    for asked, field in WRONG:
        with pytest.raises(errors.TaskInvalidRequest) as refusal:
            await app.tasks.accept(asked)
        assert field in str(refusal.value.details.get("field")), asked
        assert refusal.value.code == "TASK_INVALID_REQUEST"

    await nothing_is_stored(app)


@pytest.mark.contract("T8", "K20")
@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"schedule_type": "cron", "cron_expr": "0 8 * * *", "timezone": "Europe/Berlin"}, "schedule_type"),
        ({"schedule_type": "daily"}, "schedule_type"),
        ({"schedule_type": "every", "every": 60}, "schedule_type"),
        ({"cron_expr": "0 8 * * *"}, "cron_expr"),
        ({"schedule_type": "at", "scheduled_at": "2030-01-01T00:00:00Z", "timezone": "Mars"}, "timezone"),
        ({"schedule_type": "yearly"}, "schedule_type"),
        ({"schedule_type": ["cron"]}, "schedule_type"),
        ({"schedule_type": "at"}, "scheduled_at"),
    ],
    ids=str,
)
async def test_a_schedule_that_cannot_be_made_is_refused_as_such_with_its_field(
    make_app: MakeApp, asked: dict[str, Any], field: str
) -> None:
    app = await make_app((mail, {"default": True}))

    with pytest.raises(errors.TaskInvalidSchedule) as refusal:
        await app.tasks.accept(asked)

    assert (refusal.value.code, refusal.value.details["field"]) == ("TASK_INVALID_SCHEDULE", field)
    await nothing_is_stored(app)


@pytest.mark.contract("T8")
@pytest.mark.parametrize("kind", ["cron", "daily", "every"])
async def test_a_request_for_a_schedule_is_sent_to_its_own_door(make_app: MakeApp, kind: str) -> None:
    app = await make_app((mail, {"default": True}))

    with pytest.raises(errors.TaskInvalidSchedule, match="makes a schedule"):
        await app.tasks.accept({"schedule_type": kind})


@pytest.mark.contract("R6", "T8")
@pytest.mark.parametrize("asked", [None, [], "x", 7, [("name", "mail")]], ids=repr)
async def test_a_request_that_is_no_object_is_refused(make_app: MakeApp, asked: Any) -> None:
    app = await make_app((mail, {"default": True}))

    with pytest.raises(errors.TaskInvalidRequest):
        await app.tasks.accept(asked)

    await nothing_is_stored(app)


@pytest.mark.contract("R6", "T8")
@pytest.mark.parametrize("value", [0, "", [], False], ids=repr)
async def test_a_payload_that_is_empty_is_taken_as_it_is(make_app: MakeApp, value: Any) -> None:
    async def echo(payload: Any) -> Any:
        return payload

    app = await make_app((echo, {"default": True}))
    handle = await app.tasks.accept({"payload": value})

    async with app.worker():
        result = await handle.result(timeout=PATIENCE_SECONDS)

    assert (type(result), result) == (type(value), value)


@pytest.mark.contract("R6", "T16")
async def test_an_unknown_handler_is_refused_with_the_nearest_name(make_app: MakeApp) -> None:
    app = await make_app(mail)

    with pytest.raises(errors.TaskUnknownHandler, match="Did you mean mail"):
        await app.tasks.create("mial", {})

    await nothing_is_stored(app)


@pytest.mark.contract("R6", "T8")
async def test_a_naive_time_is_refused(make_app: MakeApp) -> None:
    app = await make_app(mail)

    with pytest.raises(errors.TaskInvalidSchedule):
        await app.tasks.create(mail, {}, at=datetime(2030, 1, 1))  # noqa: DTZ001 - that is the mistake

    await nothing_is_stored(app)


@pytest.mark.contract("R6")
@pytest.mark.parametrize("timeout", [0, -1, math.nan, math.inf, timedelta(0), timedelta(days=400)], ids=repr)
async def test_a_timeout_that_is_no_time_is_refused(make_app: MakeApp, timeout: Any) -> None:
    app = await make_app(mail)

    with pytest.raises(errors.TaskInvalidRequest):
        await app.tasks.create(mail, {}, timeout=timeout)

    await nothing_is_stored(app)


@pytest.mark.contract("R6", "K20")
@pytest.mark.parametrize("task_id", ["", "no such", LONG, "a\0b", "unknown"], ids=lambda text: text[:10])
async def test_asking_for_a_task_by_anything_is_answered_clearly(make_app: MakeApp, task_id: str) -> None:
    app = await make_app(mail)

    for call in (app.tasks.get, app.tasks.cancel, app.tasks.events, app.tasks.logs):
        with pytest.raises((errors.TaskNotFound, errors.TaskInvalidRequest)):
            await call(task_id)


@pytest.mark.contract("R6", "K20")
@pytest.mark.parametrize("task_id", [123, None, b"x", "\ud800", ["a"]], ids=ascii)
async def test_what_is_no_id_is_refused_by_name(make_app: MakeApp, task_id: Any) -> None:
    app = await make_app(mail)

    for call in (app.tasks.get, app.tasks.cancel, app.tasks.events, app.tasks.logs):
        with pytest.raises(errors.TaskInvalidRequest) as refusal:
            await call(task_id)
        assert refusal.value.details["field"] == "task_id"


FILTERS: list[tuple[str, Any]] = [
    *(("queue", value) for value in ("\0", "\ud800", "", LONG, 7)),
    *(("name", value) for value in ("\0", "\ud800", "a b", 7)),
    *(("state", value) for value in ("gone", "\0", 7, ())),
    *(("before", value) for value in ("x", "\0", 7)),
    *(("limit", value) for value in (0, -1, 1001, 10**12, 2**70, "x", 1.5, True, None)),
]


@pytest.mark.contract("R6", "K20")
@pytest.mark.parametrize(("field", "value"), FILTERS, ids=lambda each: ascii(each)[:20])
async def test_a_list_by_anything_is_answered_with_the_field(make_app: MakeApp, field: str, value: Any) -> None:
    app = await make_app(mail)

    with pytest.raises(errors.TaskInvalidRequest) as refusal:
        await app.tasks.list(**{field: value})

    assert refusal.value.details["field"] == field


@pytest.mark.contract("R6", "K20")
@pytest.mark.parametrize(
    ("field", "value"),
    [*(("limit", value) for value in (-1, 0, 10**12, 2**70, "x")), *(("after", value) for value in (-1, 2**70, "x"))],
)
async def test_a_log_by_anything_is_answered_with_the_field(make_app: MakeApp, field: str, value: Any) -> None:
    app = await make_app(mail)
    handle = await app.tasks.create(mail, {})

    with pytest.raises(errors.TaskInvalidRequest) as refusal:
        await app.tasks.logs(handle.id, **{field: value})

    assert refusal.value.details["field"] == field


@pytest.mark.contract("K13", "K20", "T14")
@pytest.mark.parametrize(
    ("given", "kept"),
    [("a\0b", "a\\x00b"), ("\ud800", "\\ud800"), ("x" * 50_000_000, "x" * 1999 + "…")],
    ids=["nul", "surrogate", "50 MB"],
)
async def test_the_reason_of_a_cancel_is_stored_readable_and_bounded(make_app: MakeApp, given: str, kept: str) -> None:
    app = await make_app(mail)
    handle = await app.tasks.create(mail, {})

    assert await handle.cancel(reason=given)

    assert (await app.tasks.events(handle.id))[-1].reason_message == kept


@pytest.mark.contract("K13", "K20", "T14")
@pytest.mark.parametrize("reason", [7, b"x", ["not wanted"]], ids=repr)
async def test_a_reason_that_is_no_text_is_refused_and_nothing_is_cancelled(make_app: MakeApp, reason: Any) -> None:
    app = await make_app(mail)
    handle = await app.tasks.create(mail, {})

    with pytest.raises(errors.TaskInvalidRequest) as refusal:
        await handle.cancel(reason=reason)

    assert refusal.value.details["field"] == "reason"
    assert (await handle.refresh()).state == READY


# Handlers that return or raise anything.


REFUSED = {
    "do not retry: an exception": "ValueError: no",
    "do not retry: a dict": "{'no': 1}",
    "do not retry: nothing": "the handler asked not to be retried",
    "do not retry: a number": "7",
    "do not retry: mute": "Mute: (its message cannot be read)",
    "do not retry: not made": "the handler asked not to be retried",
    "do not retry: another reason": "[8]",
    "do not retry: no reason": "the handler raised something that cannot be read",
}


@pytest.mark.contract("R6", "K13", "K25", "T4")
@pytest.mark.parametrize("kind", ["async", "thread", "process"])
async def test_a_handler_that_returns_or_raises_anything_ends_its_own_task_only(make_app: MakeApp, kind: str) -> None:
    async def neighbour(n: int) -> int:
        return n

    bad: Callable[..., Any] = anything.in_loop if kind == "async" else anything.elsewhere
    app = await make_app((bad, {"process": kind == "process"}), neighbour)
    handles = {what: await app.tasks.create(bad, what=what, max_retries=0, timeout=60) for what in ANYTHING}
    beside = [await app.tasks.create(neighbour, n=n) for n in range(20)]

    async with app.worker(concurrency=6):
        ends = {
            what: await asyncio.wait_for(app.tasks.end(handle.id), PATIENCE_SECONDS) for what, handle in handles.items()
        }
        assert [await handle.result(timeout=PATIENCE_SECONDS) for handle in beside] == list(range(20))
        assert await (await app.tasks.create(neighbour, n=99)).result(timeout=PATIENCE_SECONDS) == 99

    assert {what: end.code for what, end in ends.items()} == {what: code for what, (_, code) in ANYTHING.items()}
    assert all(len(end.reason or "") <= 2100 for end in ends.values())
    assert {what: ends[what].reason for what in REFUSED} == REFUSED


@pytest.mark.contract("K25", "K9")
@pytest.mark.parametrize(
    "payload",
    ["1" * 5000, "[" * 500 + "]" * 500, '"text"', "{}"],
    ids=lambda text: text[:12],
)
async def test_a_row_made_unreadable_by_another_program_ends_alone(make_app: MakeApp, payload: str) -> None:
    async def count(n: int) -> int:
        return n

    app = await make_app(count)
    async with app.database.transaction() as tx:
        poison = await plant(tx, TASK, READY, name="count")
        await tx.fetch(f"update ferryman.tasks set payload = '{payload}'::jsonb where id = $1", poison)
    beside = await app.tasks.create_many(count, [{"n": n} for n in range(10)])

    async with app.worker():
        end = await asyncio.wait_for(app.tasks.end(poison), PATIENCE_SECONDS)
        results = [await handle.result(timeout=PATIENCE_SECONDS) for handle in beside]

    assert (end.state, end.code, end.attempt) == ("failed", "TASK_INVALID_PAYLOAD", 1)
    assert results == list(range(10))


@pytest.mark.contract("K20", "K25")
async def test_what_postgresql_itself_refuses_is_told_in_a_sentence_at_its_own_door(make_app: MakeApp) -> None:
    app = await make_app(mail)
    async with app.database.session() as tx:
        await tx.fetch("alter table ferryman.tasks add constraint odd check (priority <> 7)")

    one, other = await asyncio.gather(
        app.tasks.create(mail, {}, priority=7), app.tasks.create(mail, {}), return_exceptions=True
    )
    with pytest.raises(errors.StatementRefused):
        await app.tasks.create_many(mail, [{}], priority=7)

    assert isinstance(one, errors.StatementRefused)
    assert (one.code, one.details["sqlstate"]) == ("STATEMENT_REFUSED", "23514")
    assert not isinstance(other, BaseException)
    assert [task.id for task in await app.tasks.list()] == [other.id]


@pytest.mark.contract("K20")
async def test_a_read_that_postgresql_refuses_is_told_in_a_sentence(make_app: MakeApp) -> None:
    app = await make_app(mail)
    handle = await app.tasks.create(mail, {})
    async with app.database.session() as tx:
        await tx.fetch("alter table ferryman.task_progress rename column message to word")

    for asked in (app.tasks.record(handle.id), app.tasks.list(), anext(app.tasks.watch(handle.id))):
        with pytest.raises(errors.StatementRefused):
            await asked
