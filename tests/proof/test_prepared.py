"""K10: a prepared transaction that nobody finishes is named. It takes a server that allows prepared transactions."""

from pathlib import Path

import asyncpg
import pytest

from ferryman.app.embedded import Embedded
from ferryman.kernel import migrate, open_transactions
from ferryman.kernel.pool import Database
from tests.sql.test_open_transactions import NO_TIME, WRITE, looked


@pytest.mark.contract("K10")
async def test_a_prepared_transaction_that_nobody_finishes_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_transactions, "LONG", NO_TIME)
    settings = {"max_prepared_transactions": "1"}
    with Embedded(tmp_path / "server", durable=False, keep=False, settings=settings) as server:
        await migrate.migrate(server.url)
        connection = await asyncpg.connect(server.url)
        for statement in ("begin", WRITE, "prepare transaction 'it''s mine'"):
            await connection.execute(statement)
        db = Database(server.url)
        await db.open()
        found = await looked(db, "Prepared transaction")
        await connection.execute("rollback prepared 'it''s mine'")
        after = await looked(db, "Prepared transaction")
        await db.close()
        await connection.close()

    assert found is not None
    assert found.verdict == "bad"
    assert found.says.startswith("Prepared transaction it's mine (role postgres, database postgres) has been open for")
    assert "It wrote to the log" in found.says
    assert found.advice == "In database postgres: commit prepared 'it''s mine'; or rollback prepared 'it''s mine';"
    assert after is None
