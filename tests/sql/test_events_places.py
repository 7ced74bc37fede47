"""K10, K12: where reading begins, people who follow the log, and the story of one object."""

from collections.abc import Sequence
from uuid import UUID, uuid4

import pytest

from ferryman.kernel import events
from ferryman.kernel.db import Tx
from ferryman.kernel.events import Event, Place
from ferryman.kernel.pool import Database

WRITE = """
    insert into ferryman.events (at, subject, tenant, kind, from_state, to_state)
    select clock_timestamp(), $1::uuid, $2::text, 'thing', 'old', $3::text from generate_series(1, $4::integer)
"""


async def write(tx: Tx, *words: str, subject: UUID | None = None, tenant: str = "default", times: int = 1) -> None:
    for word in words:
        await tx.fetch(WRITE, subject or uuid4(), tenant, word, times)


def words(found: Sequence[Event]) -> list[str | None]:
    return [event.to_state for event in found]


@pytest.mark.contract("K10", "K12")
async def test_people_follow_the_log_of_their_tenant_without_leaving_a_trace(db: Database) -> None:
    thing = uuid4()
    async with db.session() as session:
        await write(session, "mine 1", "mine 2", subject=thing, tenant="a")
        await write(session, "other thing", tenant="a")
        await write(session, "theirs", tenant="b")

        mine, after = await events.tail(session, Place(), tenant="a", limit=2)
        rest, after = await events.tail(session, after, tenant="a")
        one, _ = await events.tail(session, Place(mine[0].id), subject=thing)
        none, _ = await events.tail(session, after)
        consumers = await session.fetch("select name from ferryman.consumers")

    assert words(mine) == ["mine 1", "mine 2"]
    assert words(rest) == ["other thing"]
    assert words(one) == ["mine 2"]
    assert list(none) == []
    assert list(consumers) == []


@pytest.mark.contract("K10")
async def test_people_who_follow_do_not_miss_a_late_commit_either(db: Database) -> None:
    place = Place()
    async with db.session() as session:
        async with db.transaction() as late:
            await write(late, "first")
            async with db.transaction() as quick:
                await write(quick, "second")
            early, place = await events.tail(session, place)
        found, place = await events.tail(session, place)

    assert words(early) == []
    assert words(found) == ["first", "second"]


@pytest.mark.contract("K10", "K12")
async def test_an_object_tells_its_own_story(db: Database) -> None:
    thing = uuid4()
    async with db.transaction() as tx:
        await write(tx, "born", subject=thing, tenant="a")
        await write(tx, "noise")
        await write(tx, "gone", subject=thing, tenant="a")

        assert words(await events.of(tx, thing)) == ["born", "gone"]
        assert words(await events.of(tx, thing, tenant="b")) == []


@pytest.mark.contract("K10")
async def test_a_consumer_may_begin_after_an_event_and_be_forgotten(db: Database) -> None:
    async with db.session() as session:
        await write(session, "old")
        place = await events.latest(session)
        assert await events.begin(session, "late comer", after_id=place.last_id)
        assert not await events.begin(session, "late comer")
        await write(session, "new")

    async with db.transaction() as tx:
        assert words(await events.read(tx, "late comer")) == ["new"]
    async with db.session() as session:
        assert await events.forget(session, "late comer")
        assert not await events.forget(session, "late comer")


@pytest.mark.contract("K10")
async def test_a_mark_is_closed_when_everybody_who_wrote_before_it_has_ended(db: Database) -> None:
    async with db.transaction() as late:
        await write(late, "first")
        async with db.transaction() as tx:
            mark = await events.mark(tx)
        async with db.transaction() as younger:
            await write(younger, "second")
            async with db.session() as tx:
                while_both_write = await events.closed(tx, mark)
    async with db.transaction() as younger:
        await write(younger, "third")
        async with db.session() as tx:
            while_a_younger_writes = await events.closed(tx, mark)
            upto_the_mark = words(await events.between(tx, 0, mark.end_id))
            upto_the_second = words(await events.between(tx, 0, 2))

    assert (mark.end_id, while_both_write, while_a_younger_writes) == (1, False, True)
    assert (upto_the_mark, upto_the_second) == (["first"], ["first", "second"])


@pytest.mark.contract("K10", "K12")
async def test_a_look_for_a_tenant_goes_only_so_far_at_once(db: Database) -> None:
    async with db.transaction() as tx:
        await write(tx, "theirs", tenant="other", times=7)
        await write(tx, "ours", tenant="acme")
    told, place = [], events.Place()
    for _ in range(3):
        async with db.transaction() as tx:
            found, place = await events.tail(tx, place, tenant="acme", reach=3)
        told.append((words(found), place.last_id))

    assert told == [([], 3), ([], 6), (["ours"], 8)]
