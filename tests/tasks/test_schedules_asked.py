"""What is asked of schedules: keys, tenants, and what is refused (T8, T12, K12)."""

from collections.abc import Sequence
from typing import Any

import pytest

from ferryman import Ferryman
from ferryman.kernel import errors
from ferryman.kernel.pool import Database
from tests.patience import PATIENCE_SECONDS
from tests.tasks.clockwork import REQUEST, report
from tests.tasks.conftest import MakeApp


@pytest.mark.contract("T12")
async def test_the_same_key_answers_with_the_schedule_or_names_what_differs(make_app: MakeApp) -> None:
    app = await make_app((report, {"default": True}))
    asked = {**REQUEST, "payload": {}}
    made = await app.accept(asked)

    silent = {
        name: asked[name] for name in ("idempotency_key", "idempotency_scope", "schedule_type", "cron_expr", "timezone")
    }
    assert (await app.schedules.accept({**silent, "payload": {"day": "other"}})).id == made.id
    for change in (
        {"cron_expr": "31 2 * * *"}, {"timezone": "UTC"}, {"timeout_ms": 1}, {"max_retries": 9},
    ):  # fmt: skip
        with pytest.raises(errors.TaskDuplicate) as conflict:
            await app.accept({**asked, **change})
        assert conflict.value.details["conflict_fields"] == list(change)
        assert conflict.value.details["existing"]["task_id"] == "nightly"
    with pytest.raises(errors.TaskDuplicate) as other:
        await app.accept({"task_id": "nightly", "schedule_type": "every", "interval": 60})
    assert "schedule_type" in other.value.details["conflict_fields"]
    await app.accept({**asked, "cron_expr": "30  2 * * *"})


@pytest.mark.contract("K12")
async def test_no_tenant_sees_or_moves_the_schedules_of_another(make_app: MakeApp) -> None:
    mine, theirs = await make_app(report, tenant="a"), await make_app(report, tenant="b")
    made = await mine.schedules.create(report, every=60, schedule_id="s", idempotency_key="k")

    assert await theirs.schedules.list() == []
    for ask in (theirs.schedules.get, theirs.schedules.pause, theirs.schedules.trigger, theirs.schedules.delete):
        with pytest.raises(errors.ScheduleNotFound):
            await ask(made.id)
    same = await theirs.schedules.create(report, every=60, schedule_id="s", idempotency_key="k")
    assert not same.idempotent_hit


@pytest.mark.contract("K12")
async def test_inside_a_handler_schedules_are_those_of_its_tenant(make_app: MakeApp) -> None:
    apps: list[Ferryman] = []

    async def arrange() -> str:
        made = await apps[0].schedules.create("arrange", every=3600, schedule_id="mine")
        return made.schedule.tenant

    apps.append(await make_app(arrange))
    async with apps[0].worker():
        task = await apps[0].tasks.of("acme").create(arrange)
        assert await task.result(timeout=PATIENCE_SECONDS) == "acme"

    assert await apps[0].schedules.list() == []
    made = await apps[0].schedules.of("acme").get("mine")
    assert await made.pause()
    assert (await made.trigger()).task.tenant == "acme"


BAD: Sequence[tuple[dict[str, Any], str]] = [
    ({"schedule_type": "cron"}, "cron_expr"),
    ({"schedule_type": "cron", "cron_expr": "0 8 * * *"}, "timezone"),
    ({"schedule_type": "cron", "cron_expr": "0 8 * *", "timezone": "UTC"}, "cron_expr"),
    ({"schedule_type": "cron", "cron_expr": "0 0 30 2 *", "timezone": "UTC"}, "cron_expr"),
    ({"schedule_type": "cron", "cron_expr": 5, "timezone": "UTC"}, "cron_expr"),
    ({"schedule_type": "cron", "cron_expr": "\ud800 * * * *", "timezone": "UTC"}, "cron_expr"),
    ({"schedule_type": "cron", "cron_expr": "0 8 * * *", "timezone": "Mars/Base"}, "timezone"),
    ({"schedule_type": "cron", "cron_expr": "0 8 * * *", "timezone": "America"}, "timezone"),
    ({"schedule_type": "cron", "cron_expr": "0 8 * * *", "timezone": "../../etc/passwd"}, "timezone"),
    ({"schedule_type": "cron", "cron_expr": "0 8 * * *", "timezone": "localtime"}, "timezone"),
    ({"schedule_type": "cron", "cron_expr": "0 8 * * *", "timezone": "right/UTC"}, "timezone"),
    ({"schedule_type": "cron", "cron_expr": "0 8 * * *", "timezone": "+02:00"}, "timezone"),
    ({"schedule_type": "cron", "cron_expr": "0 8 * * *", "timezone": "\x00"}, "timezone"),
    ({"schedule_type": "cron", "cron_expr": "0 8 * * *", "timezone": ""}, "timezone"),
    ({"schedule_type": "cron", "cron_expr": "0 8 * * *", "timezone": 2}, "timezone"),
    ({"schedule_type": "cron", "cron_expr": "0 8 * * *", "timezone": "x" * 1000}, "timezone"),
    ({"schedule_type": "cron", "cron_expr": "0 8 * * *", "timezone": "UTC", "interval": 5}, "interval"),
    ({"schedule_type": "cron", "cron_expr": "0 8 * * *", "timezone": "UTC", "scheduled_at": "2030-01-01T00:00:00Z"},
     "scheduled_at"),
    ({"schedule_type": "cron", "cron_expr": "0 8 * * *", "timezone": "UTC", "catch_up": "some"}, "catch_up"),
    ({"schedule_type": "cron", "cron_expr": "0 8 * * *", "timezone": "UTC", "overlap": ["skip"]}, "overlap"),
    ({"schedule_type": "cron", "cron_expr": "0 8 * * *", "timezone": "UTC", "ends_at": "2030-01-01T00:00:00"}, "ends_at"),
    ({"schedule_type": "cron", "cron_expr": "0 8 * * *", "timezone": "UTC", "ends_at": "2020-01-01T00:00:00Z"}, "ends_at"),
    ({"schedule_type": "daily"}, "timezone"),
    ({"schedule_type": "daily", "timezone": "UTC", "time_of_day": "24:00"}, "time_of_day"),
    ({"schedule_type": "daily", "timezone": "UTC", "time_of_day": "8h"}, "time_of_day"),
    ({"schedule_type": "daily", "timezone": "UTC", "time_of_day": 8}, "time_of_day"),
    ({"schedule_type": "daily", "timezone": "UTC", "cron_expr": "0 8 * * *"}, "cron_expr"),
    ({"schedule_type": "every"}, "interval"),
    ({"schedule_type": "every", "interval": 0}, "interval"),
    ({"schedule_type": "every", "interval": -5}, "interval"),
    ({"schedule_type": "every", "interval": 0.5}, "interval"),
    ({"schedule_type": "every", "interval": 1e12}, "interval"),
    ({"schedule_type": "every", "interval": float("nan")}, "interval"),
    ({"schedule_type": "every", "interval": float("inf")}, "interval"),
    ({"schedule_type": "every", "interval": "soon"}, "interval"),
    ({"schedule_type": "every", "interval": True}, "interval"),
    ({"schedule_type": "every", "interval": 1.0001}, "interval"),
    ({"schedule_type": "every", "interval": 60, "timezone": "UTC"}, "timezone"),
    ({"schedule_type": "weekly"}, "schedule_type"),
    ({"schedule_type": ["cron"]}, "schedule_type"),
    ({"schedule_type": "CRON", "cron_expr": "0 8 * * *", "timezone": "UTC"}, "cron_expr"),
    ({"cron_expr": "0 8 * * *"}, "cron_expr"),
]  # fmt: skip


@pytest.mark.contract("T8", "K20")
@pytest.mark.parametrize(("asked", "field"), BAD, ids=lambda each: ascii(each)[:80])
async def test_a_schedule_that_cannot_be_is_refused_by_its_field_and_nothing_is_stored(
    make_app: MakeApp, db: Database, asked: dict[str, Any], field: str
) -> None:
    app = await make_app((report, {"default": True}))

    with pytest.raises(errors.TaskInvalidSchedule) as refused:
        await app.accept(asked)

    assert refused.value.code == "TASK_INVALID_SCHEDULE"
    assert refused.value.details["field"] == field
    assert str(refused.value).startswith(f"{field}: ")
    async with db.session() as tx:
        [row] = await tx.fetch(
            "select (select count(*) from ferryman.schedules) + (select count(*) from ferryman.tasks) as n"
        )
    assert row["n"] == 0


@pytest.mark.contract("T8", "K20")
@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"queue": "a b"}, "queue"),
        ({"timeout_ms": 0}, "timeout_ms"),
        ({"colour": 1}, "colour"),
        ({"task_id": ""}, "task_id"),
    ],
)
async def test_the_fields_that_a_schedule_shares_with_a_task_are_checked_alike(
    make_app: MakeApp, asked: dict[str, Any], field: str
) -> None:
    app = await make_app((report, {"default": True}))

    with pytest.raises(errors.TaskInvalidRequest) as refused:
        await app.accept({"schedule_type": "every", "interval": 60, **asked})

    assert refused.value.details["field"] == field


@pytest.mark.contract("T8")
@pytest.mark.parametrize("kinds", [{}, {"cron": "0 8 * * *", "every": 60}])
async def test_python_says_one_rhythm(make_app: MakeApp, kinds: dict[str, Any]) -> None:
    app = await make_app(report)

    with pytest.raises(errors.TaskInvalidSchedule, match="one of cron, daily and every"):
        await app.schedules.create(report, **kinds)


@pytest.mark.contract("T16")
async def test_a_payload_that_does_not_fit_is_refused_when_the_schedule_is_made(make_app: MakeApp) -> None:
    app = await make_app(report)

    with pytest.raises(errors.TaskInvalidPayload):
        await app.schedules.create(report, every=60, colour="red")
