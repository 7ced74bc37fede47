"""One key, one task (T12)."""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from ferryman.app import creates
from ferryman.kernel import errors, faults
from tests.patience import PATIENCE_SECONDS
from tests.tasks.conftest import MakeApp

AT = datetime(2030, 1, 1, tzinfo=UTC)


async def mail(**fields: Any) -> None: ...


async def count(app: Any) -> int:
    async with app.database.session() as tx:
        [row] = await tx.fetch("select count(*) as count from ferryman.tasks")
    return int(row["count"])


@pytest.mark.contract("T12", "K11")
@pytest.mark.parametrize(
    ("first", "second", "hit"),
    [
        ({"idempotency_key": "k"}, {"idempotency_key": "k"}, True),
        ({"idempotency_key": "k"}, {"idempotency_key": "l"}, False),
        ({"idempotency_key": "k", "idempotency_scope": "s"}, {"idempotency_key": "k", "idempotency_scope": "s"}, True),
        ({"idempotency_key": "k", "idempotency_scope": "s"}, {"idempotency_key": "k", "idempotency_scope": "t"}, False),
        ({"idempotency_key": "k", "idempotency_scope": "s"}, {"idempotency_key": "k"}, False),
        ({"idempotency_key": "k"}, {"idempotency_key": "k", "idempotency_scope": "s"}, False),
        ({"task_id": "a"}, {"task_id": "a"}, True),
        ({"task_id": "a"}, {"task_id": "b"}, False),
        ({"task_id": "a", "idempotency_key": "k"}, {"task_id": "a"}, True),
        ({"task_id": "a", "idempotency_key": "k"}, {"idempotency_key": "k"}, True),
        ({"task_id": "a", "idempotency_key": "k"}, {"task_id": "b", "idempotency_key": "k"}, True),
        ({}, {}, False),
    ],
    ids=str,
)
async def test_a_hit_is_the_same_task_id_or_the_same_key_in_the_same_scope(
    make_app: MakeApp, first: dict[str, Any], second: dict[str, Any], hit: bool
) -> None:
    app = await make_app(mail)
    born = await app.tasks.create(mail, **first)

    again = await app.tasks.create(mail, **second)

    assert (born.idempotent_hit, again.idempotent_hit) == (False, hit)
    assert (again.id == born.id) is hit
    assert await count(app) == (1 if hit else 2)


@pytest.mark.contract("T12")
@pytest.mark.parametrize("named", ["task_id", "idempotency_key"])
@pytest.mark.parametrize(
    ("field", "first", "second"),
    [
        ("timeout_ms", {"timeout": 1}, {"timeout": 2}),
        ("max_retries", {"max_retries": 1}, {"max_retries": 2}),
        ("scheduled_at", {"at": AT}, {"at": AT + timedelta(seconds=1)}),
    ],
)
async def test_a_critical_field_that_differs_is_a_conflict_that_names_it(
    make_app: MakeApp, named: str, field: str, first: dict[str, Any], second: dict[str, Any]
) -> None:
    app = await make_app(mail)
    born = await app.tasks.create(mail, **first | {named: "x"})

    with pytest.raises(errors.TaskDuplicate) as conflict:
        await app.tasks.create(mail, **second | {named: "x"})

    assert conflict.value.code == "TASK_DUPLICATE"
    assert conflict.value.details["conflict_fields"] == [field]
    assert conflict.value.details["existing"]["task_id"] == born.task_id
    assert await count(app) == 1


@pytest.mark.contract("T12")
async def test_a_conflict_names_every_field_that_differs(make_app: MakeApp) -> None:
    app = await make_app(mail)
    await app.tasks.create(mail, idempotency_key="k")

    with pytest.raises(errors.TaskDuplicate) as conflict:
        await app.tasks.create(mail, idempotency_key="k", at=AT, timeout=1, max_retries=9)

    assert conflict.value.details["conflict_fields"] == ["schedule_type", "scheduled_at", "timeout_ms", "max_retries"]


@pytest.mark.contract("T12")
async def test_only_fields_present_in_the_request_are_compared_and_never_the_payload(make_app: MakeApp) -> None:
    app = await make_app(mail)
    born = await app.tasks.create(mail, idempotency_key="k", at=AT, timeout=7, max_retries=9, to="Ada")

    again = await app.tasks.create(mail, idempotency_key="k", to="Bob")

    assert (again.id, again.idempotent_hit, json.loads(again.task.payload)) == (born.id, True, {"to": "Ada"})


@pytest.mark.contract("T12")
async def test_the_same_time_in_another_zone_is_the_same(make_app: MakeApp) -> None:
    app = await make_app((mail, {"default": True}))
    asked = {"schedule_type": "at", "idempotency_key": "k"}
    await app.tasks.accept({**asked, "scheduled_at": "2030-01-01T00:00:00Z"})

    again = await app.tasks.accept({**asked, "scheduled_at": "2030-01-01T02:00:00+02:00"})

    assert again.idempotent_hit


@pytest.mark.contract("T12")
async def test_a_task_id_and_a_key_that_hit_different_tasks_are_a_conflict(make_app: MakeApp) -> None:
    app = await make_app(mail)
    await app.tasks.create(mail, task_id="a")
    await app.tasks.create(mail, idempotency_key="k")

    with pytest.raises(errors.TaskDuplicate) as conflict:
        await app.tasks.create(mail, task_id="a", idempotency_key="k")

    assert conflict.value.details["conflict_fields"] == ["task_id", "idempotency_key"]


@pytest.mark.contract("T12")
async def test_a_key_of_another_scope_is_no_conflict_beside_a_task_id(make_app: MakeApp) -> None:
    app = await make_app(mail)
    born = await app.tasks.create(mail, task_id="a")
    await app.tasks.create(mail, idempotency_key="k", idempotency_scope="elsewhere")

    again = await app.tasks.create(mail, task_id="a", idempotency_key="k")

    assert (again.id, again.idempotent_hit) == (born.id, True)


@pytest.mark.contract("T12")
async def test_a_task_id_may_be_an_id(make_app: MakeApp) -> None:
    app = await make_app(mail)
    id = uuid4()
    born = await app.tasks.create(mail, task_id=str(id))

    again = await app.tasks.create(mail, task_id=id)

    assert (born.id, born.task_id, again.idempotent_hit) == (id, str(id), True)


@pytest.mark.contract("T12")
async def test_a_key_lives_as_long_as_its_tasks_row(make_app: MakeApp) -> None:
    app = await make_app(mail)
    born = await app.tasks.create(mail, idempotency_key="k")
    async with app.worker():
        await born.result(timeout=PATIENCE_SECONDS)

    again = await app.tasks.create(mail, idempotency_key="k")

    assert (again.idempotent_hit, again.task.state) == (True, "succeeded")


@pytest.mark.contract("T12")
async def test_one_set_may_hold_one_key_several_times(make_app: MakeApp) -> None:
    app = await make_app(mail)

    handles = await asyncio.gather(*(app.tasks.create(mail, idempotency_key="k", n=n) for n in range(3)))

    assert [handle.idempotent_hit for handle in handles] == [False, True, True]
    assert len({handle.id for handle in handles}) == 1


@pytest.mark.contract("T12", "K11")
async def test_a_hundred_simultaneous_creates_of_one_key_make_one_row(make_app: MakeApp) -> None:
    apps = [await make_app(mail) for _ in range(5)]

    handles = await asyncio.gather(*(apps[n % 5].tasks.create(mail, idempotency_key="k", n=n) for n in range(100)))

    assert len({handle.id for handle in handles}) == 1
    assert [handle.idempotent_hit for handle in handles].count(False) == 1
    assert await count(apps[0]) == 1


@pytest.mark.contract("T12", "K24")
@pytest.mark.parametrize(
    "named", [{}, {"task_id": "order"}, {"idempotency_key": "k"}, {"task_id": "order", "idempotency_key": "k"}], ids=str
)
async def test_a_create_whose_first_answer_was_lost_is_no_hit(make_app: MakeApp, named: dict[str, Any]) -> None:
    app = await make_app(mail)

    with faults.armed("create.committed=away@1"):
        handle = await app.tasks.create(mail, **named)

    assert (handle.idempotent_hit, await count(app)) == (False, 1)


@pytest.mark.contract("T12", "K24")
@pytest.mark.parametrize("point", ["create.before", "create.committed"])
@pytest.mark.parametrize("number", [3, 1001])
@pytest.mark.parametrize("keyed", [True, False])
async def test_a_set_whose_first_answer_was_lost_is_no_hit(
    make_app: MakeApp, point: str, number: int, keyed: bool
) -> None:
    app = await make_app(mail)
    keys = [f"k{n}" for n in range(number)] if keyed else None

    with faults.armed(f"{point}=away@1"):
        handles = await app.tasks.create_many(mail, [{}] * number, idempotency_keys=keys)

    assert {each.idempotent_hit for each in handles} == {False}
    assert (len({each.id for each in handles}), await count(app)) == (number, number)


@pytest.mark.contract("K24")
async def test_the_first_try_of_a_create_is_a_part_of_its_patience(
    make_app: MakeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = await make_app(mail)
    left: list[timedelta] = []

    async def once(attempt: Callable[[], Awaitable[Any]], patience: timedelta) -> Any:
        left.append(patience)
        return await attempt()

    monkeypatch.setattr(creates, "repeated", once)
    with faults.armed("create.committed=away@1"):
        await app.tasks.create(mail)

    assert timedelta(0) < left[0] < app.tasks._creates._patience


@pytest.mark.contract("T12", "K24")
async def test_a_task_id_that_is_the_id_cannot_tell_a_repeat_from_a_hit(make_app: MakeApp) -> None:
    app = await make_app(mail)

    with faults.armed("create.committed=away@1"):
        handle = await app.tasks.create(mail, task_id=uuid4())

    assert (handle.idempotent_hit, await count(app)) == (True, 1)


PROCESS = """
import asyncio, sys
from ferryman import Ferryman

async def main():
    app = Ferryman(sys.argv[1])
    app.declare("mail")
    async with app:
        print("ready", flush=True)
        sys.stdin.readline()
        handles = await asyncio.gather(*(app.tasks.create("mail", idempotency_key="k") for _ in range(25)))
        print(sum(not handle.idempotent_hit for handle in handles), len({handle.id for handle in handles}))

asyncio.run(main())
"""


@pytest.mark.contract("T12", "K11")
async def test_processes_that_create_one_key_at_once_make_one_row(make_app: MakeApp, database_url: str) -> None:
    app = await make_app(mail)
    pipe = asyncio.subprocess.PIPE
    processes = [
        await asyncio.create_subprocess_exec(sys.executable, "-c", PROCESS, database_url, stdin=pipe, stdout=pipe)
        for _ in range(4)
    ]
    for process in processes:
        assert process.stdout is not None
        assert await process.stdout.readline() == b"ready\n"

    answers = await asyncio.gather(*(process.communicate(b"go\n") for process in processes))

    assert sorted(out.split()[0] for out, _ in answers) == [b"0", b"0", b"0", b"1"]
    assert await count(app) == 1


@pytest.mark.contract("T12", "K24")
async def test_sets_that_share_keys_in_opposite_orders_do_not_deadlock(make_app: MakeApp) -> None:
    one, other = await make_app(mail), await make_app(mail)
    keys = [f"k{n}" for n in range(60)]

    async def create(app: Any, ordered: list[str]) -> list[Any]:
        return list(await asyncio.gather(*(app.tasks.create(mail, idempotency_key=key) for key in ordered)))

    for turn in range(5):
        mine = [f"{turn}.{key}" for key in keys]
        await asyncio.gather(create(one, mine), create(other, mine[::-1]))

    async with one.database.session() as tx:
        [row] = await tx.fetch("select deadlocks from pg_stat_database where datname = current_database()")
    assert row["deadlocks"] == 0
    assert await count(one) == 300


@pytest.mark.contract("K11", "T12")
async def test_many_with_keys_are_created_once_however_often_they_are_sent(make_app: MakeApp) -> None:
    app = await make_app()
    keys = [f"order-{n}" for n in range(1500)]
    payloads = [{"n": n} for n in range(1500)]

    first = await app.tasks.create_many("mail", payloads, idempotency_keys=reversed(keys))
    again = await app.tasks.create_many("mail", list(reversed(payloads)), idempotency_keys=keys)

    assert not any(handle.idempotent_hit for handle in first)
    assert all(handle.idempotent_hit for handle in again)
    assert [handle.id for handle in again] == [handle.id for handle in reversed(first)]
    assert [handle.task.payload for handle in first[:2]] == ['{"n":0}', '{"n":1}']
    async with app.database.session() as tx:
        [row] = await tx.fetch("select count(*) as n from ferryman.tasks")
    assert row["n"] == 1500


@pytest.mark.contract("K11", "T12")
async def test_one_conflict_among_many_keys_creates_nothing(make_app: MakeApp) -> None:
    app = await make_app()
    await app.tasks.create("mail", idempotency_key="b", max_retries=1)

    with pytest.raises(errors.TaskDuplicate, match="max_retries"):
        await app.tasks.create_many("mail", [{}, {}, {}], idempotency_keys=["a", "b", "c"], max_retries=2)

    assert [task.idempotency_key for task in await app.tasks.list()] == ["b"]


@pytest.mark.contract("K11", "K20")
@pytest.mark.parametrize(
    "keys", [{"idempotency_keys": ["a"]}, {"idempotency_scope": "s"}, {"idempotency_keys": ["a", ""]}], ids=str
)
async def test_many_whose_keys_do_not_fit_are_refused(make_app: MakeApp, keys: dict[str, Any]) -> None:
    app = await make_app()

    with pytest.raises(errors.TaskInvalidRequest, match="idempotency_keys"):
        await app.tasks.create_many("mail", [{}, {}], **keys)

    assert await app.tasks.list() == []
