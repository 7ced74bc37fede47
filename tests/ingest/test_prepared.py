"""The statement of a sink is planned once for each connection, and not for each page (P12, ADR 39)."""

from typing import Any

import pytest

from ferryman.ingest.work.executor import pool_of_runs
from ferryman.kernel.db import SCHEMA
from ferryman.kernel.pool import Session
from tests.ingest.harbour import DAWN, Server, harbour, hold

PREPARED = "select generic_plans, custom_plans from pg_prepared_statements where name ~ '^ferryman_page_'"
ODD = "it's \\ new"


@pytest.mark.contract("P12", "I6")
async def test_a_connection_plans_the_statement_of_a_sink_once(database_url: str) -> None:
    async with harbour(database_url, Server(), sink=hold()) as here:
        pool, sink = pool_of_runs(here.url, SCHEMA, here.ship().terms), hold()
        await pool.open()

        async def write(tx: Session, id: int) -> list[Any]:
            page = sink.join([{"id": id, "at": DAWN.isoformat(), "value": ODD}] * 2)
            assert page is not None
            return [tuple(row) for row in await tx.fetch("select ferryman.write_page($1, $2)", page.sql, page.page)]  # type: ignore[arg-type]

        async def undone(tx: Session) -> None:
            async with tx.transaction():
                await write(tx, 1)
                raise ZeroDivisionError

        async with pool.session() as tx:
            await sink.check(tx)
            with pytest.raises(ZeroDivisionError):
                await undone(tx)  # what it has prepared stays; the note that it has is gone
            assert await write(tx, 2) == [(1,)]
            await tx.execute("alter table public.cargo add column note text, alter column value type varchar")
            assert await write(tx, 3) == [(1,)]
            assert [tuple(row) for row in await tx.fetch(PREPARED)] == [(3, 0)]  # type: ignore[arg-type]
        await pool.close()
        assert await here.sunk() == [(2, ODD), (3, ODD)]
