"""What the driver raises, in our words: a stable code, a sentence, what to do next."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager

import asyncpg

from ferryman.kernel import errors, outage

GUARD_SQLSTATE = "FM001"

# What the driver says without a code of PostgreSQL's.
_UNAVAILABLE = (
    OSError,
    asyncio.TimeoutError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # the server hung up in the middle of something, and the driver lost its thread
)
_NOT_LET_IN = (
    asyncpg.InvalidAuthorizationSpecificationError,  # no such user, or a wrong password
    asyncpg.InvalidCatalogNameError,
    asyncpg.InsufficientPrivilegeError,  # also a file system that has become read-only
)
_NOT_MIGRATED = (asyncpg.UndefinedTableError, asyncpg.InvalidSchemaNameError, asyncpg.UndefinedFunctionError)


@contextmanager
def translated() -> Iterator[None]:
    """Let driver errors out as ours: a stable code, a sentence, what to do next."""
    try:
        yield
    except errors.FerrymanError:
        raise
    except _NOT_MIGRATED as error:
        raise errors.DatabaseNotMigrated(reason=str(error)) from error
    except asyncpg.InvalidCachedStatementError as error:
        raise errors.DatabaseUnavailable("A migration changed the tables under this connection.") from error
    except _NOT_LET_IN as error:
        login = not isinstance(error, asyncpg.InsufficientPrivilegeError)
        raise errors.DatabaseRefused(f"PostgreSQL refuses: {str(error).rstrip('.')}.", login=login) from error
    except _UNAVAILABLE as error:
        raise errors.DatabaseUnavailable(sentence(error)) from error
    except asyncpg.PostgresError as error:
        state = error.sqlstate or ""
        if state == GUARD_SQLSTATE:
            raise _refused(error) from error
        if outage.passing(state):
            raise outage.told(state, sentence(error)) from error
        raise


@contextmanager
def readable() -> Iterator[None]:
    """Let an address that the driver cannot read out as a setting that is wrong; without its words, which show a part of it."""
    try:
        yield
    except (ValueError, IndexError):
        raise errors.SettingsInvalid(
            "database_url: expected an address such as postgresql://user:password@host:port/name?sslmode=require, with"
            " signs such as @ : / ? in a password written as %40 %3A %2F %3F; this one cannot be read.",
            field="database_url",
        ) from None


def told(error: BaseException) -> errors.FerrymanError | None:
    """Say for a person what the driver raised, at a door, where one statement stands alone; None if it was not the driver.

    Behind the doors such an error stays as it is: one bad row of a set must be told from a database that is away.
    """
    if not isinstance(error, asyncpg.PostgresError):
        return None
    said = str(error).partition("\n")[0].rstrip(".")
    return errors.StatementRefused(f"PostgreSQL refused a statement: {said}.", sqlstate=error.sqlstate)


@contextmanager
def spoken() -> Iterator[None]:
    """Let out of a door what the driver raised as a sentence."""
    try:
        yield
    except Exception as error:
        word = told(error)
        if word is None:
            raise
        raise word from error


def sentence(error: BaseException) -> str:
    """Say for a person that the database is away."""
    said = str(error).strip().rstrip(".") or type(error).__name__
    return f"PostgreSQL cannot be used now: {said}."


def _refused(error: asyncpg.PostgresError) -> errors.InvalidTransition:
    told = json.loads(error.detail or "{}")
    return errors.InvalidTransition(
        code=error.message, from_=told.get("from"), to=told.get("to"), id=told.get("id"), table=told.get("table")
    )
