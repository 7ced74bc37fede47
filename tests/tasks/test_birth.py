"""How a task comes into the world (T1, T8, T9, T15, T21)."""

import asyncio
import signal
import sys
from datetime import UTC, datetime, timedelta

import pytest

from ferryman import Context, Ferryman
from ferryman.kernel import errors
from ferryman.tasks.rules.envelope import envelope
from ferryman.tasks.states import PENDING, READY, SUCCEEDED
from ferryman.testing import travel
from tests.patience import PATIENCE_SECONDS
from tests.tasks.conftest import MakeApp

# Source 004, word for word.
REQUEST = {
    "task_id": "task_20260225_0001",
    "schedule_type": "at",
    "scheduled_at": "2026-02-25T12:00:00Z",
    "timeout_ms": 30000,
    "max_retries": 2,
    "idempotency_key": "order_1001",
    "idempotency_scope": "tenant_a",
    "payload": {"channel": "dingtalk", "request_id": "req-1"},
}
SHOWN = {
    "task_id": "task_20260225_0001",
    "schedule_type": "at",
    "attempt": 1,
    "max_retries": 2,
    "timeout_ms": 30000,
    "idempotency_key": "order_1001",
    "last_error_code": None,
    "last_error_reason": None,
    "started_at": None,
    "finished_at": None,
}


async def mail(**payload: str) -> dict[str, str]:
    return payload


async def move_time(app: Ferryman, by: timedelta) -> None:
    async with app.database.session() as tx:
        await travel(tx, by)
    app.doorbell.ring("due")


@pytest.mark.contract("T8", "T12", "T15")
async def test_the_request_of_the_source_is_accepted_word_for_word(make_app: MakeApp) -> None:
    app = await make_app((mail, {"default": True}))

    handle = await app.tasks.accept(REQUEST)

    answer = handle.answer()
    assert answer["idempotent_hit"] is False
    assert {field: answer["task"][field] for field in SHOWN} == SHOWN
    assert answer["task"]["state"] == "ready"
    assert answer["task"]["created_at"] == answer["task"]["updated_at"]
    assert answer["task"]["created_at"].endswith("Z")


@pytest.mark.contract("T12", "T15")
async def test_the_same_request_again_is_answered_as_in_the_source(make_app: MakeApp) -> None:
    app = await make_app((mail, {"default": True}))
    first = await app.tasks.accept(REQUEST)

    again = await app.tasks.accept(REQUEST)

    answer = again.answer()
    assert again.id == first.id
    assert sorted(answer) == ["idempotent_hit", "task"]
    assert answer["idempotent_hit"] is True
    assert {field: answer["task"][field] for field in SHOWN} == SHOWN
    assert answer["task"]["state"] == "ready"


@pytest.mark.contract("T8", "T9")
async def test_the_request_of_the_source_runs_its_default_handler(make_app: MakeApp) -> None:
    app = await make_app((mail, {"default": True}))
    handle = await app.tasks.accept(REQUEST)

    async with app.worker():
        assert await handle.result(timeout=PATIENCE_SECONDS) == REQUEST["payload"]


@pytest.mark.contract("T8", "T3")
async def test_what_a_request_does_not_say_has_the_sources_defaults(make_app: MakeApp) -> None:
    app = await make_app((mail, {"default": True}))

    task = (await app.tasks.accept({"payload": {}})).task

    assert (task.timeout_ms, task.max_retries, task.attempt, task.schedule_type) == (300_000, 3, 1, None)
    assert task.state == READY


@pytest.mark.contract("T1")
async def test_a_task_due_later_is_born_pending_and_its_birth_is_no_move(make_app: MakeApp) -> None:
    app = await make_app(mail)

    handle = await app.tasks.create(mail, at=datetime.now(UTC) + timedelta(hours=1))

    assert handle.task.state == PENDING
    [event] = await app.tasks.events(handle.id)
    assert envelope(event)["type"] == "task_created"
    assert (event.from_state, event.to_state, event.attempt) == (None, "pending", 1)


@pytest.mark.contract("T1")
async def test_a_task_due_now_is_born_ready(make_app: MakeApp) -> None:
    app = await make_app(mail)

    handle = await app.tasks.create(mail)

    [event] = await app.tasks.events(handle.id)
    assert (handle.task.state, event.from_state, event.to_state) == (READY, None, "ready")


@pytest.mark.contract("T1", "T9")
async def test_a_pending_task_runs_when_its_time_has_come(make_app: MakeApp) -> None:
    app = await make_app(mail)
    handle = await app.tasks.create(mail, at=datetime.now(UTC) + timedelta(hours=1), to="Ada")

    async with app.worker():
        await move_time(app, timedelta(hours=1, seconds=1))
        result = await handle.result(timeout=PATIENCE_SECONDS)

    assert result == {"to": "Ada"}
    moves = [(event.from_state, event.to_state) for event in await app.tasks.events(handle.id)]
    assert moves == [(None, "pending"), ("pending", "ready"), ("ready", "running"), ("running", "succeeded")]


@pytest.mark.contract("T1", "T5")
async def test_a_pending_task_is_not_claimed_before_its_time(make_app: MakeApp) -> None:
    app = await make_app(mail)
    later = await app.tasks.create(mail, at=datetime.now(UTC) + timedelta(hours=1))

    async with app.worker():
        await (await app.tasks.create(mail)).result(timeout=PATIENCE_SECONDS)

    assert (await later.refresh()).state == PENDING


@pytest.mark.contract("T9")
async def test_a_time_that_has_passed_runs_at_once(make_app: MakeApp) -> None:
    app = await make_app(mail)
    handle = await app.tasks.create(mail, at=datetime(2020, 1, 1, tzinfo=UTC))

    async with app.worker():
        await handle.result(timeout=PATIENCE_SECONDS)

    task = await handle.refresh()
    assert (task.state, task.scheduled_at) == (SUCCEEDED, datetime(2020, 1, 1, tzinfo=UTC))


@pytest.mark.contract("T9", "P6")
async def test_ten_thousand_due_in_the_same_second_all_run(make_app: MakeApp) -> None:
    ran: set[int] = set()
    done = asyncio.Event()

    async def count(n: int) -> None:
        ran.add(n)
        if len(ran) == 10_000:
            done.set()

    app = await make_app(count)
    due = datetime.now(UTC) + timedelta(hours=1)
    await app.tasks.create_many(count, [{"n": n} for n in range(10_000)], at=due)

    async with app.worker(concurrency=500):
        await move_time(app, timedelta(hours=1, seconds=1))
        await asyncio.wait_for(done.wait(), PATIENCE_SECONDS)

    async with app.database.session() as tx:
        [row] = await tx.fetch("select count(*) as count from ferryman.tasks where state = 'succeeded' and attempt = 1")
    assert row["count"] == 10_000


@pytest.mark.contract("T15")
async def test_the_record_shows_a_life(make_app: MakeApp) -> None:
    async def half(ctx: Context) -> int:
        ctx.progress(50, "half way")
        return 1

    app = await make_app(half)
    handle = await app.tasks.create(half, task_id="order_1", priority=-3, max_retries=1, timeout=9)
    async with app.worker():
        await handle.result(timeout=PATIENCE_SECONDS)

    shown = (await handle.refresh()).as_json()

    assert shown["task_id"] == "order_1"
    assert (shown["state"], shown["attempt"], shown["max_retries"], shown["timeout_ms"]) == ("succeeded", 1, 1, 9000)
    assert shown["created_at"] <= shown["started_at"] <= shown["finished_at"] == shown["updated_at"]
    assert (shown["priority"], shown["queue"], shown["name"], shown["tenant"]) == (-3, "default", "half", "default")


@pytest.mark.contract("T15")
async def test_a_task_without_a_name_of_its_own_is_known_by_its_id(make_app: MakeApp) -> None:
    app = await make_app(mail)

    handle = await app.tasks.create(mail)

    assert handle.task_id == str(handle.id)
    assert (await app.tasks.get(handle.task_id)).id == (await app.tasks.get(handle.id)).id == handle.id


@pytest.mark.contract("T8")
@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"schedule_type": "at"}, "scheduled_at"),
        ({"scheduled_at": "2026-02-25T12:00:00Z"}, "schedule_type"),
        ({"schedule_type": "yearly"}, "schedule_type"),
        ({"schedule_type": "at", "scheduled_at": "2026-02-25T12:00:00"}, "scheduled_at"),
        ({"schedule_type": "at", "scheduled_at": "tomorrow"}, "scheduled_at"),
        ({"schedule_type": "at", "scheduled_at": 1772020800}, "scheduled_at"),
        ({"schedule_type": "at", "scheduled_at": "9999-12-31T23:59:59-12:00"}, "scheduled_at"),
        ({"schedule_type": 7, "scheduled_at": "2026-02-25T12:00:00Z"}, "schedule_type"),
    ],
    ids=str,
)
async def test_a_schedule_that_is_wrong_or_incomplete_names_the_field(
    make_app: MakeApp, asked: dict[str, object], field: str
) -> None:
    app = await make_app((mail, {"default": True}))

    with pytest.raises(errors.TaskInvalidSchedule) as refusal:
        await app.tasks.accept(asked)

    assert refusal.value.details["field"] == field
    assert await app.tasks.list() == []


@pytest.mark.contract("T8")
async def test_a_time_is_kept_in_utc_whatever_its_offset(make_app: MakeApp) -> None:
    app = await make_app((mail, {"default": True}))

    handle = await app.tasks.accept({"schedule_type": "at", "scheduled_at": "2026-02-25T14:00:00+02:00"})

    assert handle.answer()["task"]["scheduled_at"] == "2026-02-25T12:00:00Z"


DIES = """
import asyncio, os, signal, sys
from ferryman import Ferryman

async def main():
    app = Ferryman(sys.argv[1])
    app.declare("mail")
    async with app:
        handles = [await app.tasks.create("mail"), *await app.tasks.create_many("mail", [{}, {}])]
        os.write(1, " ".join(str(handle.id) for handle in handles).encode())
        os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


@pytest.mark.contract("K1")
async def test_what_was_acknowledged_is_there_when_its_creator_dies_the_next_instant(
    make_app: MakeApp, database_url: str
) -> None:
    creator = await asyncio.create_subprocess_exec(
        sys.executable, "-c", DIES, database_url, stdout=asyncio.subprocess.PIPE
    )
    told, _ = await creator.communicate()

    app = await make_app(mail)
    assert creator.returncode == -signal.SIGKILL
    assert sorted(told.decode().split()) == sorted(str(task.id) for task in await app.tasks.list())
    assert len(told.split()) == 3


@pytest.mark.contract("K2", "T1")
async def test_one_set_of_creates_rings_for_what_is_due_and_for_what_will_be(make_app: MakeApp) -> None:
    app = await make_app(mail)
    rung: dict[str, set[frozenset[str]]] = {"ready": set(), "due": set()}
    for topic, hints in rung.items():
        app.doorbell.listen(topic, hints.add)

    await asyncio.gather(app.tasks.create(mail), app.tasks.create(mail, at=datetime.now(UTC) + timedelta(hours=1)))
    await app.doorbell.close()

    # One that has just begun to listen may be told to look at everything, too.
    assert rung["ready"] - {frozenset()} == {frozenset({"default\x1fdefault"})}
    assert rung["due"] == {frozenset()}
