"""What the role of this connection may do: read only, work, or own the tables."""

from __future__ import annotations

from typing import NamedTuple

from ferryman.app.doctor.report import BAD, GOOD, NOTE, Reading
from ferryman.kernel import db
from ferryman.kernel.db import Tx

PRIVILEGES = db.load("ferryman.app", "doctor/privileges")

NAMED = 300  # characters of a list of tables


class Role(NamedTuple):
    """A role, who can grant it more, and what it lacks."""

    name: str
    schema: str
    owner: str | None  # of the schema; None where there is no such schema yet
    database_owner: str
    may_create_schema: bool = True
    may_use_schema: bool = True
    owns_tables: bool = True
    writes: bool = True  # may write at least one table
    read_only: bool = False  # its transactions are read-only by default
    lacks: tuple[str, ...] = ()  # "SELECT on a, b"

    @property
    def unread(self) -> str | None:
        """What it may not read, if anything."""
        return next((each for each in self.lacks if each.startswith("SELECT")), None)

    @property
    def may_examine(self) -> bool:
        """Whether it can read what the other checks read."""
        return self.owner is None or (self.may_use_schema and self.unread is None)


async def read(tx: Tx) -> Role:
    """Read what the role of this connection may do."""
    row = await db.one(tx, PRIVILEGES, schema=tx.schema)
    assert row is not None
    return Role(
        row["role"], tx.schema, row["owner"], row["host"],
        may_create_schema=row["creates"], may_use_schema=bool(row["uses"]), owns_tables=row["owns"],
        writes=row["writes"] > 0, read_only=row["read_only"], lacks=tuple(row["lacks"]),
    )  # fmt: skip


def judge(role: Role) -> Reading:
    """Say what a role may do, and who can grant what it lacks."""
    if role.owner is None:
        return _before_migration(role)
    if not role.may_examine:
        return _unreadable(role, role.owner)
    if role.lacks:
        return _partly_writable(role, role.owner)
    if role.read_only:
        says = f"Transactions of {role.name} are read-only here: PostgreSQL refuses every write, and all work waits."
        advice = "If nobody stopped the writes on purpose: alter database … set default_transaction_read_only = off."
        return Reading("privileges", BAD, says, advice)
    if not role.owns_tables:
        says = f"The role {role.name} may read and write, and does not own the tables."
        advice = f"Run migrations and workers as {role.owner}: only the owner can add tables, and a day to the log."
        return Reading("privileges", NOTE, says, advice)
    return Reading("privileges", GOOD, f"The role {role.name} owns the tables.")


def _unreadable(role: Role, owner: str) -> Reading:
    lack = _short(role.unread or "") if role.may_use_schema else f"USAGE on the schema {role.schema}"
    grants = "; ".join(
        f"grant {privilege} {role.schema} to {role.name}"
        for privilege in ("usage on schema", "select on all tables in schema", "select on all sequences in schema")
    )
    says = f"The role {role.name} lacks {lack}. Nothing else can be examined."
    return Reading("privileges", BAD, says, _granted_by(owner, f"{grants};"))


def _partly_writable(role: Role, owner: str) -> Reading:
    advice = _granted_by(owner, f"grant insert, update, delete on all tables in schema {role.schema} to {role.name};")
    if role.writes:
        says = f"The role {role.name} lacks {'; '.join(map(_short, role.lacks))}."
        return Reading("privileges", BAD, says, advice)
    says = f"The role {role.name} may only read. The doctor needs no more; an app or a worker cannot use this role."
    return Reading("privileges", NOTE, says, advice)


def _before_migration(role: Role) -> Reading:
    if role.may_create_schema:
        return Reading("privileges", GOOD, f"The role {role.name} may create the schema {role.schema}.")
    says = f"The role {role.name} lacks CREATE on this database, so it cannot migrate it."
    grants = f"create schema {role.schema} authorization {role.name};"
    return Reading("privileges", BAD, says, _granted_by(role.database_owner, grants))


def _granted_by(owner: str, statements: str) -> str:
    return f"The role {owner} or a superuser can grant it: {statements}"


def _short(lack: str) -> str:
    return lack if len(lack) <= NAMED else lack[:NAMED].rpartition(",")[0] + ", …"
