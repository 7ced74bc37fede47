"""What comes out of our own connections: words about the database are ours, all others are the caller's."""

import pytest

from ferryman.kernel import errors
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


@pytest.mark.contract("K24")
async def test_a_dropped_line_connects_anew(database_url: str) -> None:
    line = Line(database_url)
    before = (await line.fetch("select pg_backend_pid() as pid"))[0]["pid"]

    line.drop()

    assert (await line.fetch("select pg_backend_pid() as pid"))[0]["pid"] != before
    await line.close()
