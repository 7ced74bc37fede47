"""Callers with a transaction of their own: one interface over the drivers whose transactions can be lent (K16)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import psycopg
import sqlalchemy
from sqlalchemy import orm
from sqlalchemy.ext import asyncio as async_sqlalchemy

from ferryman import Client, Ferryman


class Lender(ABC):
    """A caller that does its own work, and lends `connection` in the middle of it."""

    plain = False
    connection: Any

    @abstractmethod
    async def open(self, url: str) -> None: ...

    @abstractmethod
    async def close(self) -> None: ...

    @abstractmethod
    async def begin(self) -> None: ...

    @abstractmethod
    async def commit(self) -> None: ...

    @abstractmethod
    async def rollback(self) -> None: ...

    @abstractmethod
    async def execute(self, sql: str) -> None: ...


class Asyncpg(Lender):
    async def open(self, url: str) -> None:
        self.connection = await asyncpg.connect(url)
        # What people do, and what must not change what we read.
        await self.connection.set_type_codec("jsonb", encoder=str, decoder=len, schema="pg_catalog")

    async def close(self) -> None:
        await self.connection.close()

    async def begin(self) -> None:
        self._transaction = self.connection.transaction()
        await self._transaction.start()

    async def commit(self) -> None:
        await self._transaction.commit()

    async def rollback(self) -> None:
        await self._transaction.rollback()

    async def execute(self, sql: str) -> None:
        await self.connection.execute(sql)


class AsyncpgPool(Asyncpg):
    async def open(self, url: str) -> None:
        self._pool = await asyncpg.create_pool(url, min_size=1, max_size=1)
        self.connection = await self._pool.acquire()

    async def close(self) -> None:
        await self._pool.release(self.connection)
        await self._pool.close()


class AsyncPsycopg(Lender):
    autocommit = False

    async def open(self, url: str) -> None:
        self.connection = await psycopg.AsyncConnection.connect(url, autocommit=self.autocommit)

    async def close(self) -> None:
        await self.connection.close()

    async def begin(self) -> None: ...  # the first statement begins

    async def commit(self) -> None:
        await self.connection.commit()

    async def rollback(self) -> None:
        await self.connection.rollback()

    async def execute(self, sql: str) -> None:
        await self.connection.execute(sql)


class AsyncPsycopgBlock(AsyncPsycopg):
    """A connection that commits each statement, but not inside a block."""

    autocommit = True

    async def begin(self) -> None:
        await self.connection.execute("begin")


class Psycopg(Lender):
    plain = True

    async def open(self, url: str) -> None:
        self.connection = psycopg.connect(url)

    async def close(self) -> None:
        self.connection.close()

    async def begin(self) -> None: ...

    async def commit(self) -> None:
        self.connection.commit()

    async def rollback(self) -> None:
        self.connection.rollback()

    async def execute(self, sql: str) -> None:
        self.connection.execute(sql)


class Sqlalchemy(Lender):
    plain = True

    async def open(self, url: str) -> None:
        self._engine = sqlalchemy.create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
        self.connection = self.made()

    def made(self) -> Any:
        return self._engine.connect()

    async def close(self) -> None:
        self.connection.close()
        self._engine.dispose()

    async def begin(self) -> None: ...

    async def commit(self) -> None:
        self.connection.commit()

    async def rollback(self) -> None:
        self.connection.rollback()

    async def execute(self, sql: str) -> None:
        self.connection.execute(sqlalchemy.text(sql))


class SqlalchemySession(Sqlalchemy):
    def made(self) -> Any:
        return orm.Session(self._engine)


class SqlalchemyScoped(Sqlalchemy):
    def made(self) -> Any:
        return orm.scoped_session(orm.sessionmaker(self._engine))


class AsyncSqlalchemy(Lender):
    dialect = "asyncpg"

    async def open(self, url: str) -> None:
        address = url.replace("postgresql://", f"postgresql+{self.dialect}://")
        self._engine = async_sqlalchemy.create_async_engine(address)
        self.connection = await self.made()

    async def made(self) -> Any:
        return await self._engine.connect()

    async def close(self) -> None:
        await self.connection.close()
        await self._engine.dispose()

    async def begin(self) -> None: ...

    async def commit(self) -> None:
        await self.connection.commit()

    async def rollback(self) -> None:
        await self.connection.rollback()

    async def execute(self, sql: str) -> None:
        await self.connection.execute(sqlalchemy.text(sql))


class AsyncSqlalchemySession(AsyncSqlalchemy):
    async def made(self) -> Any:
        return async_sqlalchemy.AsyncSession(self._engine)


class AsyncSqlalchemyPsycopg(AsyncSqlalchemy):
    dialect = "psycopg"


class AsyncSqlalchemyPsycopgSession(AsyncSqlalchemySession):
    dialect = "psycopg"


LENDERS: dict[str, Callable[[], Lender]] = {
    "asyncpg": Asyncpg,
    "asyncpg pool": AsyncpgPool,
    "psycopg async": AsyncPsycopg,
    "psycopg async block": AsyncPsycopgBlock,
    "psycopg": Psycopg,
    "sqlalchemy connection": Sqlalchemy,
    "sqlalchemy session": SqlalchemySession,
    "sqlalchemy scoped session": SqlalchemyScoped,
    "sqlalchemy async connection, asyncpg": AsyncSqlalchemy,
    "sqlalchemy async session, asyncpg": AsyncSqlalchemySession,
    "sqlalchemy async connection, psycopg": AsyncSqlalchemyPsycopg,
    "sqlalchemy async session, psycopg": AsyncSqlalchemyPsycopgSession,
}


class Dock:
    """A lender, and the door that fits it: the app for an async connection, the client for a plain one."""

    def __init__(self, lender: Lender, app: Ferryman, client: Client | None) -> None:
        self.lender = lender
        self._app = app
        self._client = client

    async def create(self, *given: Any, **options: Any) -> Any:
        if self._client is None:
            return await self._app.tasks.create(*given, connection=self.lender.connection, **options)
        return self._client.create(*given, connection=self.lender.connection, **options)

    async def create_many(self, *given: Any, **options: Any) -> Any:
        if self._client is None:
            return await self._app.tasks.create_many(*given, connection=self.lender.connection, **options)
        return self._client.create_many(*given, connection=self.lender.connection, **options)

    async def accept(self, asked: dict[str, Any]) -> Any:
        if self._client is None:
            return await self._app.tasks.accept(asked, connection=self.lender.connection)
        return self._client.accept(asked, connection=self.lender.connection)

    async def cancel(self, *given: Any, **options: Any) -> Any:
        if self._client is None:
            return await self._app.tasks.cancel(*given, connection=self.lender.connection, **options)
        return self._client.cancel(*given, connection=self.lender.connection, **options)


@asynccontextmanager
async def docked(name: str, app: Ferryman, url: str) -> AsyncIterator[Dock]:
    """Open a lender beside an app, with a client if its connection is plain."""
    lender = LENDERS[name]()
    await lender.open(url)
    try:
        if lender.plain:
            with Client(url) as client:
                yield Dock(lender, app, client)
        else:
            yield Dock(lender, app, None)
    finally:
        await lender.close()
