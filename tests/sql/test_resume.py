"""K10: where a reader resumes after an event that the log has, has dropped, or never had."""

from uuid import uuid4

import pytest

from ferryman.kernel import events, resume
from ferryman.kernel.event_id import NUMBER_MAX, EventId
from ferryman.kernel.pool import Database, Session
from ferryman.kernel.resume import Gap, GapReason, Position
from tests.sql import days
from tests.sql.going_back import go_back

WRITE = """
insert into ferryman.events (logged_at, at, subject, tenant, kind, to_state)
values (now() - make_interval(secs => $1), now(), $2, 'default', 'task', 'ready')
returning id, ferryman.event_token(logged_at) as token
"""


async def write(tx: Session, *ages: float) -> list[EventId]:
    """Write events so many seconds ago; return their identities."""
    rows = [(await tx.fetch(WRITE, age, uuid4()))[0] for age in ages]
    return [EventId(row["id"], row["token"]) for row in rows]


def earlier(id: EventId, by: float) -> EventId:
    assert id.token is not None
    return EventId(id.number, id.token - int(by * 1_000_000))


def test_an_identity_is_read_as_it_is_written() -> None:
    for id in (EventId(0), EventId(5263), EventId(5263, 0), EventId(NUMBER_MAX, 2**56 - 1)):
        assert EventId.parse(str(id)) == EventId.parse(id.name) == id
    for wrong in (
        "",
        "evt_",
        "-1",
        "1-",
        "1-xyz",
        "1-ABC",
        " 1",
        "1\n",
        "evt_1-1-1",
        str(NUMBER_MAX + 1),
        "1-" + 15 * "f",
    ):
        assert EventId.parse(wrong) is None, wrong


@pytest.mark.contract("K10")
async def test_a_reader_resumes_after_every_event_of_the_log(db: Database) -> None:
    async with db.transaction() as tx:
        written = await write(tx, 600, 0, 0)
    async with db.session() as tx:
        for seen in (*written, *(EventId(each.number) for each in written), EventId(0)):
            assert await resume.check(tx, seen) is None


@pytest.mark.contract("K10")
async def test_a_plain_number_beyond_the_end_resumes_at_the_end(db: Database) -> None:
    async with db.transaction() as tx:
        await write(tx, 0, 0, 0)
    async with db.session() as tx:
        assert await resume.check(tx, EventId(9999)) == Gap(4, 9999, GapReason.BEYOND_END, EventId(3))


@pytest.mark.contract("K10")
@pytest.mark.parametrize("length", [2, 9])
async def test_an_event_of_another_history_resumes_before_all_that_was_written_since(db: Database, length: int) -> None:
    """The client saw event 6, three minutes ago; then the log went back to 2, and has others by now."""
    async with db.transaction() as tx:
        shared = await write(tx, 900, 600)
        new = await write(tx, *[30.0] * (length - 2))
        [seen] = await write(tx, 180)
        await tx.execute("set local session_replication_role = replica")
        await tx.fetch("delete from ferryman.events where id = $1", seen.number)
        await tx.fetch("select setval('ferryman.events_id_seq', $1)", length)
    seen = EventId(6, seen.token)
    async with db.session() as tx:
        gap = await resume.check(tx, seen)
        why = GapReason.BEYOND_END if length < 6 else GapReason.OTHER_HISTORY
        assert gap == Gap(3, 6, why, shared[-1])
    async with db.transaction() as tx:
        found, position, again = await resume.tail(tx, Position.after(seen))
    assert (again, [each.identity for each in found]) == (gap, new)
    assert position.seen == (new or shared)[-1]


@pytest.mark.contract("K10")
async def test_the_clocks_of_two_servers_may_differ_by_a_minute(db: Database) -> None:
    async with db.transaction() as tx:
        old, _near, last = await write(tx, 300, 200, 150)
    async with db.session() as tx:
        gap = await resume.check(tx, earlier(last, 1))
        assert gap is not None
        assert gap.resume == old
        gap = await resume.check(tx, earlier(old, 1))
        assert gap == Gap(1, 1, GapReason.OTHER_HISTORY, EventId(0)), "nothing is older: all is read again"


@pytest.mark.contract("K10")
async def test_what_retention_dropped_is_a_gap_for_identities_and_numbers(db: Database, database_url: str) -> None:
    async with db.transaction() as tx:
        dropped = await write(tx, 0, 0, 0)
    await days.drop_the_first(database_url)
    async with db.transaction() as tx:
        await write(tx, 0)
    async with db.session() as tx:
        for seen in (dropped[0], EventId(1)):
            assert await resume.check(tx, seen) == Gap(2, 3, GapReason.DROPPED, EventId(3))
        for seen in (dropped[2], EventId(3)):
            assert await resume.check(tx, seen) is None, "the last that was dropped was seen"


@pytest.mark.contract("K10")
async def test_a_reader_notices_that_numbers_which_it_passed_have_events_now(db: Database, database_url: str) -> None:
    """The last numbers were drawn by a transaction that was rolled back; after the log went back, others draw them."""
    async with db.transaction() as tx:
        await write(tx, 600, 600)
        await tx.fetch("select nextval('ferryman.events_id_seq')")
    async with db.transaction() as tx:
        _, position, _ = await resume.tail(tx, Position.after(EventId(0)))
    assert (position.place.last_id, position.seen.number) == (3, 2)
    await go_back(database_url, to=2)
    async with db.transaction() as tx:
        [new] = await write(tx, 0)
    async with db.transaction() as tx:
        found, _, gap = await resume.tail(tx, position)

    assert gap is not None
    assert gap.reason is GapReason.OTHER_HISTORY
    assert new in [each.identity for each in found]


@pytest.mark.contract("K10")
async def test_a_consumer_beyond_the_end_reads_what_was_written_since_it_moved_last(
    db: Database, database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with db.transaction() as tx:
        await write(tx, 900, 600)
        await events.begin(tx, "mine", after_id=50)
        await tx.fetch("update ferryman.consumers set updated_at = now() - interval '5 minutes'")
    async with db.transaction() as tx:
        new = await write(tx, 0, 0)
    for expected in ((), new):
        async with db.transaction() as tx:
            assert [each.identity for each in await events.read(tx, "mine")] == list(expected)
    assert "the consumer mine is beyond the end of the log (50) and resumes after event 2" in caplog.text


@pytest.mark.contract("K10")
async def test_a_consumer_is_left_alone_where_only_the_sequence_is_behind(db: Database) -> None:
    async with db.transaction() as tx:
        await write(tx, 0, 0, 0)
        await events.begin(tx, "mine", after_id=3)
        await tx.fetch("select setval('ferryman.events_id_seq', 1)")
    async with db.transaction() as tx:
        assert await events.read(tx, "mine") == ()
    async with db.session() as tx:
        [row] = await tx.fetch("select last_id from ferryman.consumers")
    assert row["last_id"] == 3
