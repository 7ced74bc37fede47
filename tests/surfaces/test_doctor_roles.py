"""`ferryman doctor` says what its role lacks, and who can grant it."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import asyncpg
import pytest

from tests.surfaces import ferry

pytestmark = pytest.mark.contract("W21", "K20")

USES = "grant usage on schema ferryman to {role}"
READS = "grant pg_read_all_data to {role}"
SELECTS = "grant select on all tables in schema ferryman to {role}; grant select on all sequences in schema ferryman to {role}"
WRITES = "grant insert, update, delete on all tables in schema ferryman to {role}"


@asynccontextmanager
async def role_with(url: str, *grants: str) -> AsyncIterator[str]:
    """Create a role with these grants, and return the address under its name; it is dropped at the end."""
    role = f"role_{uuid4().hex[:12]}"
    admin = await asyncpg.connect(url)
    await admin.execute(f"create role {role} login")
    try:
        for grant in grants:
            await admin.execute(grant.format(role=role))
        parts = urlsplit(url)
        yield urlunsplit(parts._replace(netloc=parts.netloc.replace("postgres@", f"{role}@")))
    finally:
        await admin.execute(f"drop owned by {role}; drop role {role}")
        await admin.close()


async def examined(url: str) -> tuple[int, dict[str, Any]]:
    ran = await asyncio.to_thread(ferry.run, "doctor", "--json", url=url)
    assert "could not be looked at" not in ran.out
    return ran.code, {each["name"]: each for each in ran.json["readings"]}


ROLES: dict[str, tuple[Sequence[str], int, str, str, str]] = {
    # by what it is: grants, exit code, verdict, what the doctor says, and what the owner runs
    "a reader": ((READS,), 0, "note", "may only read", "grant insert, update, delete on all tables"),
    "a reader by its default": (
        (READS, "alter role {role} set default_transaction_read_only = on"), 0, "note", "may only read", "grant insert"
    ),
    "a writer": ((USES, SELECTS, WRITES), 0, "note", "does not own the tables", "workers as postgres"),
    "a role without a table": (
        (USES, SELECTS, WRITES, "revoke insert on ferryman.tasks from {role}"), 1, "bad", "lacks INSERT on tasks.",
        "grant insert",
    ),
    "a role that may not read a table": (
        (USES, SELECTS, "revoke select on ferryman.tasks from {role}"), 1, "bad", "lacks SELECT on tasks.", "grant select"
    ),
    "a role that may do nothing": ((), 1, "bad", "lacks USAGE on the schema ferryman", "grant usage on schema ferryman"),
}  # fmt: skip


@pytest.mark.parametrize("name", ROLES)
async def test_what_a_role_lacks_is_named_with_who_can_grant_it(name: str, database_url: str) -> None:
    grants, code, verdict, says, advice = ROLES[name]

    async with role_with(database_url, *grants) as url:
        exit_code, readings = await examined(url)

    found = readings["privileges"]
    assert (exit_code, found["verdict"]) == (code, verdict), readings
    assert says in found["says"]
    assert advice in found["advice"]
    assert "postgres" in found["advice"]


async def test_the_statements_that_the_doctor_names_are_enough(database_url: str) -> None:
    async with role_with(database_url) as url:
        _code, before = await examined(url)
        admin = await asyncpg.connect(database_url)
        await admin.execute(before["privileges"]["advice"].partition(": ")[2])
        code, after = await examined(url)
        await admin.close()

    assert (code, after["privileges"]["verdict"]) == (0, "note")
    assert "may only read" in after["privileges"]["says"]


async def test_a_role_that_cannot_migrate_is_told_so(empty_database_url: str) -> None:
    async with role_with(empty_database_url) as url:
        code, readings = await examined(url)

    assert (code, readings["privileges"]["verdict"], readings["migrations"]["verdict"]) == (1, "bad", "bad")
    assert "lacks CREATE on this database" in readings["privileges"]["says"]
