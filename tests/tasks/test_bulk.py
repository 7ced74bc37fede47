"""Many tasks at once: like ones travel as ids and payloads, and their handles are made when they are taken in hand."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ferryman import Ferryman
from ferryman.kernel import errors
from ferryman.kernel.ids import new_id
from ferryman.kernel.pool import Database
from ferryman.tasks.intake.create import Alike, create_alike, create_one, lonely
from ferryman.tasks.model import Draft
from ferryman.tasks.rules.request import Defaults, draft
from ferryman.tasks.states import PENDING, READY
from ferryman.tasks.store import births
from tests.sql.counted import Counted
from tests.tasks.conftest import MakeApp

TERM = timedelta(days=30)
TIME = datetime(2026, 11, 17, tzinfo=UTC)


async def count(n: int) -> int:
    return n


def like(**fields: object) -> Draft:
    return draft(tenant="acme", name="count", payload="{}", defaults=Defaults(), **fields)  # type: ignore[arg-type]


@pytest.mark.contract("T8", "T15", "T21")
@pytest.mark.parametrize("ahead", [None, timedelta(hours=-1), timedelta(hours=1)])
async def test_a_handle_shows_what_is_stored(make_app: MakeApp, ahead: timedelta | None) -> None:
    app = await make_app(count)
    at = None if ahead is None else datetime.now(UTC) + ahead

    handles = await app.tasks.create_many(
        count, [{"n": n} for n in range(3)], at=at, queue="mail", priority=2, timeout=7, max_retries=1, backoff=[1, 2]
    )

    for n, handle in enumerate(handles):
        created = handle.task
        assert not handle.idempotent_hit
        assert created.payload == f'{{"n":{n}}}'
        assert (await handle.refresh())._replace(payload=created.payload) == created
    assert handles[0].task.state is (PENDING if ahead == timedelta(hours=1) else READY)


@pytest.mark.contract("T1", "T13")
@pytest.mark.parametrize(("ahead", "state"), [(-1, "ready"), (1, "pending")])
async def test_each_birth_of_a_set_is_an_event(make_app: MakeApp, ahead: int, state: str) -> None:
    app = await make_app(count)

    handles = await app.tasks.create_many(count, [{"n": 1}, {"n": 2}], at=datetime.now(UTC) + timedelta(hours=ahead))

    for handle in handles:
        assert [(event.from_state, event.to_state) for event in await app.tasks.events(handle.id)] == [(None, state)]


@pytest.mark.contract("T8", "P9")
@pytest.mark.parametrize(("number", "statements", "transactions"), [(1, 1, 0), (999, 1, 0), (1000, 1, 1), (1001, 2, 1)])
async def test_what_fits_into_one_set_is_stored_by_one_statement_that_commits_itself(
    make_app: MakeApp, db: Database, monkeypatch: pytest.MonkeyPatch, number: int, statements: int, transactions: int
) -> None:
    app = await make_app(count)
    async with db.session() as session:
        wire = Counted(session)
        monkeypatch.setattr(app.tasks._creates, "_db", wire)

        handles = await app.tasks.create_many(count, [{"n": n} for n in range(number)])

    assert (wire.trips, wire.transactions) == (statements, transactions)
    assert (await handles[-1].refresh()).state is READY


@pytest.mark.contract("S2")
async def test_many_handles_are_a_sequence(make_app: MakeApp) -> None:
    app = await make_app(count)

    handles = await app.tasks.create_many(count, ({"n": n} for n in range(2500)))

    assert len(handles) == 2500
    payloads = [f'{{"n":{n}}}' for n in range(2500)]
    assert [handle.task.payload for handle in handles] == payloads
    assert [handle.task.payload for handle in handles[998:1003]] == payloads[998:1003]
    assert handles[-1].task.payload == payloads[-1]
    assert len({handle.id for handle in handles}) == 2500
    with pytest.raises(IndexError, match="2500"):
        handles[2500]
    with pytest.raises(IndexError):
        handles[-2501]
    assert repr(handles) == "<2500 tasks>"


async def test_none_is_no_task(make_app: MakeApp) -> None:
    app = await make_app(count)

    assert len(await app.tasks.create_many(count, [])) == 0


SAID = {
    "nothing": {},
    "all": {
        "queue": "mail",
        "priority": -2,
        "timeout_ms": 7000,
        "max_retries": 1,
        "backoff": [1, 2],
        "traceparent": "00-1-2-01",
    },
}


@pytest.mark.contract("T1", "T8", "T21")
@pytest.mark.parametrize("said", SAID)
async def test_one_alone_is_stored_as_each_of_many_is(db: Database, said: str) -> None:
    """They have a statement each: what differs is when, and who."""
    drafts = [like(**SAID[said]) for _ in range(3)]
    ids = [each.task.id for each in drafts]
    async with db.session() as tx:
        alone = (await create_one(tx, drafts[0], ends_after=TERM)).task
        first = await create_alike(tx, drafts[1], Alike(ids[1:], ["{}"] * 2), ends_after=TERM)
        born = await tx.fetch(
            "select to_jsonb(task) - '{id,created_at,updated_at}'::text[] || jsonb_build_object("
            " 'due_at', task.due_at = task.created_at, 'rank', task.rank - task.created_at,"
            " 'ends_at', task.ends_at - task.due_at) as row"
            " from ferryman.tasks as task order by id"
        )
        told = await tx.fetch(
            "select to_jsonb(event) - '{id,at,xid,logged_at,subject}'::text[] as row from ferryman.events as event order by id"
        )
        moments = await tx.fetch(
            "select task.created_at = event.at as same"
            " from ferryman.tasks as task join ferryman.events as event on event.subject = task.id"
        )

    assert len(born) == len(told) == 3
    assert {row["row"] for row in born} == {born[0]["row"]}
    assert {row["row"] for row in told} == {told[0]["row"]}
    assert [row["same"] for row in moments] == [True] * 3
    one, other = (
        each._replace(id=ids[0], task_id="", due_at=TIME, ends_at=TIME, created_at=TIME, updated_at=TIME)
        for each in (alone, first)
    )
    assert one == other
    assert (alone.due_at, alone.ends_at) == (alone.created_at, alone.created_at + TERM)


def test_the_parameters_of_one_alone_stand_in_the_order_of_its_statement() -> None:
    assert births._CREATE_ONE.names == (*births.ONE, "ends_after", "channel", "word")


AT = {"schedule_type": "at", "scheduled_at": datetime.now(UTC)}


@pytest.mark.parametrize("said", [AT, {"ends_at": TIME}, {"task_id": "t"}, {"task_id": str(new_id())}])
def test_what_has_a_time_or_a_name_of_its_own_does_not_go_the_shortest_way(said: dict[str, object]) -> None:
    assert lonely(like())
    assert not lonely(like(**said))


@pytest.mark.contract("K24", "K11")
@pytest.mark.parametrize("number", [1, 2])
async def test_a_set_that_was_stored_before_answers_with_what_is_there(db: Database, number: int) -> None:
    """The answer to a commit can be lost; the repeat carries the same ids."""
    drafts = [like() for _ in range(number)]
    alike = Alike([each.task.id for each in drafts], ['{"n": 1}'] * number)
    async with db.session() as tx:
        first = await create_alike(tx, like(), alike, ends_after=TERM)
        again = await create_alike(tx, like(), alike, ends_after=TERM)
        rows = await tx.fetch("select id from ferryman.tasks")
        told = await tx.fetch("select subject from ferryman.events")

    assert again == first
    assert len(rows) == len(told) == number


@pytest.mark.contract("K24", "K11")
async def test_sets_whose_commit_was_not_heard_of_answer_with_what_is_there(
    make_app: MakeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = await make_app(count)
    add, tries = app.tasks._creates._add_sets, []

    async def unheard(*asked: Any) -> Any:
        tries.append(asked)
        made = await add(*asked)
        raise errors.DatabaseUnavailable("The answer was lost.") if len(tries) == 1 else AssertionError(made)

    monkeypatch.setattr(app.tasks._creates, "_add_sets", unheard)

    handles = await app.tasks.create_many(count, [{"n": n} for n in range(2500)])

    assert len(tries) == 2
    assert [handle.task.payload for handle in handles] == [f'{{"n":{n}}}' for n in range(2500)]
    assert (await handles[-1].refresh()).state is READY
    assert len(await app.tasks.events(handles[1200].id)) == 1


@pytest.mark.contract("K12")
async def test_an_id_that_belongs_to_another_tenant_is_a_conflict(db: Database) -> None:
    alike = Alike([like().task.id], ["{}"])
    async with db.session() as tx:
        await create_alike(tx, like(), alike, ends_after=TERM)
        other = like()._replace(task=like().task._replace(tenant="other"))

        with pytest.raises(errors.TaskDuplicate):
            await create_alike(tx, other, alike, ends_after=TERM)


@pytest.mark.contract("K13", "T16")
async def test_one_bad_payload_in_the_second_set_leaves_nothing(make_app: MakeApp) -> None:
    app: Ferryman = await make_app(count)

    with pytest.raises(errors.TaskInvalidPayload):
        await app.tasks.create_many(count, [*({"n": n} for n in range(1500)), {"n": "many"}])

    assert await app.tasks.list() == []
