"""Every option of a task create is stored in a schedule and given to the tasks that it fires, or is refused (T8, T10)."""

import inspect
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ferryman import Ferryman
from ferryman.app.tasks import Tasks
from ferryman.kernel import errors
from ferryman.kernel.pool import Database
from ferryman.tasks.rules import request
from ferryman.testing import travel
from tests.surfaces import ferry
from tests.tasks.clockwork import fire
from tests.tasks.conftest import MakeApp

pytestmark = pytest.mark.contract("T8", "T10", "T17")

EVERY = timedelta(minutes=1)
FIRED = """
select queue, priority, timeout_ms, max_retries, backoff, limit_key, singleton, debounce, payload,
       due_at - fire_time >= interval '30 s' as late
from ferryman.tasks
where schedule = $1
"""

STORED = "select * from ferryman.schedules where id = $1"

# What a fired task shows of each option, by the field of a request.
APPLIED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "queue": ({"queue": "mail"}, {"queue": "mail"}),
    "priority": ({"priority": -3}, {"priority": -3}),
    "timeout_ms": ({"timeout_ms": 7000}, {"timeout_ms": 7000}),
    "max_retries": ({"max_retries": 9}, {"max_retries": 9}),
    "backoff": ({"backoff": 5}, {"backoff": json.loads(request.spelled(5))}),
    "limit_key": ({"limit_key": "k"}, {"limit_key": "k"}),
    "singleton": ({"singleton": "k"}, {"singleton": "k"}),
    "debounce": ({"debounce": 60}, {"debounce": "report", "late": True}),
    "debounce_key": ({"debounce": 60, "debounce_key": "k"}, {"debounce": "k", "late": True}),
    "payload": ({"payload": {"day": "today"}}, {"payload": {"day": "today"}}),
}
# What the schedule itself shows.
ITS_OWN: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "name": ({"name": "report"}, {"name": "report"}),
    "task_id": ({"task_id": "nightly"}, {"schedule_id": "nightly"}),
    "schedule_type": ({"schedule_type": "every"}, {"schedule_type": "every"}),
    "idempotency_key": ({"idempotency_key": "k"}, {"idempotency_key": "k"}),
    "idempotency_scope": ({"idempotency_key": "k", "idempotency_scope": "s"}, {"idempotency_scope": "s"}),
    "ends_at": (
        {"ends_at": "2126-01-01T00:00:00Z"}, {"ends_at": datetime(2126, 1, 1, tzinfo=UTC)}
    ),
}  # fmt: skip
REFUSED = {"scheduled_at": "2126-01-01T00:00:00Z"}
# Where an option of Python has another name than its field; None where it belongs to one task alone.
NAMED = {"timeout": "timeout_ms", "at": None, "task_id": None, "connection": None}
OPTIONS = [name for name, each in inspect.signature(Tasks.create).parameters.items() if each.kind is each.KEYWORD_ONLY]


def test_no_option_of_a_create_is_forgotten_here() -> None:
    assert {*APPLIED, *ITS_OWN, *REFUSED} == request.FIELDS
    assert {NAMED.get(name, name) for name in OPTIONS} - {None} <= {*APPLIED, *ITS_OWN}


@pytest.fixture
async def app(make_app: MakeApp) -> Ferryman:
    app = await make_app()
    app.declare("report")
    return app


async def fired(db: Database, url: str, schedule: Any) -> Mapping[str, Any]:
    """Return the task of the first firing."""
    async with db.session() as tx:
        await travel(tx, EVERY + timedelta(seconds=1))
    assert await fire(url) == 1
    async with db.session() as tx:
        [row] = await tx.fetch(FIRED, schedule.id)
    return {**dict(row), **{name: json.loads(row[name]) for name in ("backoff", "payload") if row[name] is not None}}  # type: ignore[call-overload]


async def check(db: Database, url: str, schedule: Any, field: str) -> None:
    shown = ITS_OWN[field][1] if field in ITS_OWN else APPLIED[field][1]
    if field in ITS_OWN:
        async with db.session() as tx:
            [found] = await tx.fetch(STORED, schedule.id)
    else:
        found = await fired(db, url, schedule)
    assert {name: found[name] for name in shown} == shown


@pytest.mark.parametrize("field", sorted({*APPLIED, *ITS_OWN}))
async def test_a_field_of_a_request_is_applied(app: Ferryman, db: Database, database_url: str, field: str) -> None:
    asked = (APPLIED | ITS_OWN)[field][0]

    schedule = await app.schedules.accept({"name": "report", "schedule_type": "every", "interval": 60, **asked})

    await check(db, database_url, schedule, field)


async def test_a_field_that_is_null_is_as_if_it_were_not_there(app: Ferryman) -> None:
    for field in sorted(request.FIELDS - {"name", "schedule_type", *REFUSED}):
        await app.schedules.accept({"name": "report", "schedule_type": "every", "interval": 60, field: None})

    assert len(await app.schedules.list()) == len(request.FIELDS) - 2 - len(REFUSED)


async def test_a_field_of_one_task_alone_is_refused(app: Ferryman) -> None:
    for field, value in REFUSED.items():
        with pytest.raises(errors.TaskInvalidSchedule, match=field):
            await app.schedules.accept({"name": "report", "schedule_type": "every", "interval": 60, field: value})


@pytest.mark.parametrize("option", sorted(OPTIONS))
async def test_an_option_of_python_is_applied_or_refused(
    app: Ferryman, db: Database, database_url: str, option: str
) -> None:
    field, wrong = NAMED.get(option, option), dict[str, Any]({option: "x"})
    if field is None:
        with pytest.raises(errors.TaskInvalidRequest, match=f"^{option}: a schedule has no such option"):
            await app.schedules.create("report", every=EVERY, **wrong)
        assert await app.schedules.list() == []
        return
    asked = dict((APPLIED | ITS_OWN)[field][0])
    if field == "timeout_ms":
        asked = {"timeout": 7}

    schedule = await app.schedules.create("report", every=EVERY, **asked)

    await check(db, database_url, schedule, field)


@pytest.mark.parametrize("option", sorted(OPTIONS))
async def test_an_option_of_a_schedule_in_the_code_is_applied_or_refused(
    make_app: MakeApp, db: Database, database_url: str, option: str
) -> None:
    app = await make_app()

    async def report(day: str = "today") -> str:
        return day

    app.task(report)
    field, wrong = NAMED.get(option, option), dict[str, Any]({option: "x"})
    if field not in APPLIED and option != "ends_at":
        with pytest.raises(errors.HandlerInvalid, match=f"{option} is no option of a schedule in the code"):
            app.schedule(every=EVERY, **wrong)(report)
        return
    asked = {"timeout": 7} if field == "timeout_ms" else dict((APPLIED | ITS_OWN)[str(field)][0])

    app.schedule(every=EVERY, **asked)(report)
    await app.schedules.declare(app._declared)

    await check(db, database_url, await app.schedules.get("report"), str(field))


async def test_the_program_takes_the_keys_too(app: Ferryman, db: Database, database_url: str) -> None:
    ran = ferry.run(
        "schedule", "create", "report", "--every", "1m", "--id", "nightly", "--limit-key", "l", "--singleton", "s", "--json",
        url=database_url,
    )  # fmt: skip

    schedule = await app.schedules.get("nightly")
    task = await fired(db, database_url, schedule)
    assert (ran.code, task["limit_key"], task["singleton"]) == (0, "l", "s")
