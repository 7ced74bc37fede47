"""What comes out of our own connections: words about the database are ours, all others are the caller's."""

import tracemalloc
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import pytest

from ferryman.kernel import errors, outage
from ferryman.kernel.pool import Database, Line


class Refused(OSError):
    """A caller's own trouble with a disk or a socket."""


@pytest.mark.contract("K20", "K24")
@pytest.mark.parametrize("error", [Refused("no such file"), TimeoutError("my own clock"), ValueError("mine")])
async def test_an_error_of_the_callers_code_is_not_taken_for_one_of_the_database(
    db: Database, error: Exception
) -> None:
    async def fail_half_way() -> None:
        async with db.transaction() as tx:
            await tx.fetch("create table half_done (id bigint)")
            raise error

    with pytest.raises(type(error)) as raised:
        await fail_half_way()

    assert raised.value is error
    async with db.session() as session:
        assert (await session.fetch("select to_regclass('half_done') as found"))[0]["found"] is None


@pytest.mark.contract("K20", "S6")
@pytest.mark.parametrize(
    "url", ["postgresql://a,,b/app", "postgresql://db/app?sslmode", "postgresql://ada:s3cret@x:s3cret@db/app"]
)
async def test_an_address_that_cannot_be_read_is_a_setting_that_is_wrong(url: str) -> None:
    told = []
    for connecting in (Database(url).open, Line(url).open):
        with pytest.raises(errors.SettingsInvalid, match="database_url: expected an address such as") as refused:
            await connecting()
        told.append(f"{refused.value} {refused.value.as_dict()} {refused.value.__cause__}")

    assert "s3cret" not in "".join(told)


@pytest.mark.contract("K24")
async def test_a_connection_that_dies_inside_a_transaction_is_told_as_such_and_replaced(db: Database) -> None:
    with pytest.raises(errors.DatabaseUnavailable):
        async with db.transaction() as tx:
            await tx.fetch("select pg_terminate_backend(pg_backend_pid())")

    async with db.transaction() as tx:
        assert [row["one"] for row in await tx.fetch("select 1 as one")] == [1]


@pytest.mark.contract("K24")
async def test_a_dead_connection_does_not_hide_the_callers_own_error(db: Database) -> None:
    async def fail_on_a_dead_connection() -> None:
        async with db.transaction() as tx:
            with pytest.raises(errors.DatabaseUnavailable):
                await tx.fetch("select pg_terminate_backend(pg_backend_pid())")
            raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        await fail_on_a_dead_connection()


@pytest.mark.contract("K20", "K24")
@pytest.mark.parametrize("kind", [Database, Line])
@pytest.mark.parametrize("who", [{"user": "nobody_here"}, {"database": "no_such_place"}], ids=str)
async def test_who_is_not_let_in_is_told_what_to_set_and_may_come_back(
    database_url: str, kind: Any, who: dict[str, str]
) -> None:
    place = urlsplit(database_url)
    netloc = place.netloc.replace("postgres@", f"{who.get('user', 'postgres')}@")
    url = urlunsplit(place._replace(netloc=netloc, path=f"/{who.get('database', place.path[1:])}"))

    with pytest.raises(errors.DatabaseRefused, match="FERRYMAN_DATABASE_URL") as refusal:
        await kind(url).open()

    assert (refusal.value.code, refusal.value.retryable) == ("DATABASE_REFUSED", True)


@pytest.mark.contract("K20", "K24")
async def test_a_statement_that_is_not_allowed_fails_alone_and_says_what_is_lacking(db: Database) -> None:
    async with db.session() as session:
        await session.fetch("create role poor")
        try:
            await session.fetch("set role poor")
            with pytest.raises(errors.DatabaseRefused, match="permission denied for schema ferryman") as refusal:
                await session.fetch("select from ferryman.tasks")
        finally:
            await session.fetch("reset role")
            await session.fetch("drop role poor")

    assert refusal.value.retryable is False


@pytest.mark.contract("K24")
async def test_a_database_that_takes_no_connections_now_is_away(database_url: str) -> None:
    place = urlsplit(database_url)
    admin = Line(urlunsplit(place._replace(path="/postgres")))
    await admin.fetch(f"alter database {place.path[1:]} allow_connections false")

    with pytest.raises(errors.DatabaseUnavailable):
        await Line(database_url).open()
    with pytest.raises(errors.DatabaseUnavailable):
        await Database(database_url).open()

    await admin.close()


@pytest.mark.contract("K24")
async def test_a_dropped_line_connects_anew(database_url: str) -> None:
    line = Line(database_url)
    before = (await line.fetch("select pg_backend_pid() as pid"))[0]["pid"]

    line.drop()

    assert (await line.fetch("select pg_backend_pid() as pid"))[0]["pid"] != before
    await line.close()


@pytest.mark.contract("K1", "K5")
@pytest.mark.parametrize(
    ("to", "wanted"),
    [
        ("off", "on"),
        ("local", "on"),
        ("remote_write", "on"),
        ("on", "on"),
        ("remote_apply", "remote_apply"),
    ],
)
@pytest.mark.parametrize("whose", ["database {0}", "role current_user in database {0}"], ids=["database", "role"])
async def test_our_connections_commit_synchronously_whatever_the_database_was_set_to(
    database_url: str, whose: str, to: str, wanted: str
) -> None:
    """And wait for a standby as long as they are told to."""
    admin = Line(database_url)
    await admin.fetch(f"alter {whose.format(urlsplit(database_url).path[1:])} set synchronous_commit = {to}")
    await admin.close()
    line, database = Line(database_url), Database(database_url)
    await database.open()

    said = [*await line.fetch("show synchronous_commit")]
    line.drop()
    said += await line.fetch("show synchronous_commit")
    async with database.session() as one, database.session() as another:
        said += await one.fetch("show synchronous_commit")
        said += await another.fetch("show synchronous_commit")

    assert [row["synchronous_commit"] for row in said] == [wanted] * 4
    await line.close()
    await database.close()


@pytest.mark.contract("K16", "K24")
@pytest.mark.parametrize("level", ["serializable", "repeatable read"])
@pytest.mark.parametrize("whose", ["database {0}", "role current_user in database {0}"], ids=["database", "role"])
async def test_our_connections_are_read_committed_whatever_the_default_is(
    database_url: str, whose: str, level: str
) -> None:
    admin = Line(database_url)
    owner = whose.format(urlsplit(database_url).path[1:])
    await admin.fetch(f"alter {owner} set default_transaction_isolation = '{level}'")
    await admin.close()
    line, database = Line(database_url), Database(database_url)
    await database.open()

    shown = [*await line.fetch("show transaction_isolation")]
    async with line.transaction() as tx:
        shown += await tx.fetch("show transaction_isolation")
    async with database.session() as session:
        shown += await session.fetch("show transaction_isolation")
    async with database.transaction() as tx:
        shown += await tx.fetch("show transaction_isolation")

    assert [row["transaction_isolation"] for row in shown] == ["read committed"] * 4
    await line.close()
    await database.close()


@pytest.mark.contract("K1")
async def test_what_commits_wait_for_is_said_by_the_session_so_that_no_reload_weakens_it(database_url: str) -> None:
    line = Line(database_url)

    [row] = await line.fetch("select source from pg_settings where name = 'synchronous_commit'")

    assert row["source"] == "session"
    await line.close()


@pytest.mark.contract("K1")
async def test_a_line_that_need_not_wait_is_not_made_to(database_url: str) -> None:
    line = Line(database_url, settings={"synchronous_commit": "off"})

    [row] = await line.fetch("show synchronous_commit")

    assert row["synchronous_commit"] == "off"
    await line.close()


@pytest.mark.contract("W23")
async def test_no_transaction_of_ours_is_left_open_for_ever(database_url: str) -> None:
    line, database = Line(database_url), Database(database_url)
    await database.open()

    said = await line.fetch("show idle_in_transaction_session_timeout")
    async with database.session() as session:
        said = [*said, *await session.fetch("show idle_in_transaction_session_timeout")]

    assert [row["idle_in_transaction_session_timeout"] for row in said] == ["2s", "1min"]
    await line.close()
    await database.close()


@pytest.fixture
def _traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


@pytest.mark.contract("P8")
@pytest.mark.usefixtures("_traced")
@pytest.mark.parametrize("kind", [Database, Line])
async def test_an_answer_is_read_in_small_pieces(database_url: str, kind: type[Database | Line]) -> None:
    """Reads that ask for 256 KiB at a time leave a heap in pieces, and a process grows by what nobody uses."""
    held = kind(database_url)
    try:
        await held.open()
        async with held.transaction() as tx:
            await tx.fetch("select 1")
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            await tx.fetch("select 1")
            peak = tracemalloc.get_traced_memory()[1]
    finally:
        await held.close()

    assert peak - before < 64 * 1024


@pytest.mark.contract("K24", "K25")
@pytest.mark.parametrize("hurried", [False, True])
@pytest.mark.parametrize("patience", [timedelta(seconds=1), timedelta(seconds=2)], ids=str)
async def test_a_line_tells_a_lock_that_somebody_holds_from_a_database_that_is_slow(
    db: Database, database_url: str, patience: timedelta, hurried: bool
) -> None:
    """One of them is a few rows', the other everybody's: what stands beside those rows goes on."""
    line = Line(database_url, patience=patience)
    if hurried:
        line.hurry()
    told: list[errors.DatabaseUnavailable] = []

    async with db.transaction() as stranger:
        await stranger.fetch("select from ferryman.watchdog for update")
        for statement in ("select from ferryman.watchdog for update", "select pg_sleep(10)"):
            with pytest.raises(errors.DatabaseUnavailable) as raised:
                await line.fetch(statement)
            told.append(raised.value)
    await line.close()

    assert [outage.locked(error) for error in told] == [True, False]
    assert [outage.of_all(error) for error in told] == [False, True]


@pytest.mark.contract("K24")
async def test_a_line_gives_a_lock_less_time_than_a_statement_whatever_its_patience(database_url: str) -> None:
    asked = "select setting::integer as ms from pg_settings where name in ('lock_timeout', 'statement_timeout') order by name"
    for seconds in (1, 3.3, 5, 10, 60, 600):
        for line in (
            Line(database_url, patience=timedelta(seconds=seconds)),
            Line(database_url, patience=timedelta(seconds=seconds)).hurry(),
        ):
            lock, statement = [row["ms"] for row in await line.fetch(asked)]
            await line.close()
            assert 0 < lock <= statement / 2
