"""What must always be true, as SQL statements that return no rows (K23).

Each domain gives its own as data; `ferryman doctor`, /healthz and every chaos run execute them. One statement sees one
snapshot, so an invariant is true in every instant or it is broken. Those that read whole tables or the whole log are marked
`deep`, so that a probe which runs every few seconds can leave them out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ferryman.kernel import db
from ferryman.kernel.db import Statement, Tx


@dataclass(frozen=True)
class Invariant:
    """One sentence that is always true, and the statement that finds where it is not."""

    name: str
    says: str
    statement: Statement
    deep: bool = False


@dataclass(frozen=True)
class Violation:
    """An invariant that is broken, and the first rows that break it."""

    name: str
    says: str
    rows: tuple[Mapping[str, Any], ...]


def declare(package: str, name: str, says: str, *, deep: bool = False) -> Invariant:
    """Read `sql/invariants/<name>.sql` of a package."""
    written = db.load(package, f"invariants/{name}")
    bounded = f"select to_jsonb(broken)::text as row from (\n{written.text}\n) as broken limit :limit"  # noqa: S608  (our own file)
    return Invariant(name, says, Statement(name, bounded), deep)


async def check(tx: Tx, invariants: Iterable[Invariant], *, deep: bool = True, limit: int = 100) -> list[Violation]:
    """Run them all and return those that are broken."""
    broken = []
    for invariant in invariants:
        if invariant.deep and not deep:
            continue
        rows = await db.many(tx, invariant.statement, limit=limit)
        if rows:
            broken.append(Violation(invariant.name, invariant.says, tuple(json.loads(row["row"]) for row in rows)))
    return broken


KERNEL_INVARIANTS = (
    declare(
        "ferryman.kernel",
        "nothing_is_overdue",
        "Nothing live is past the time by which a rule ends it.",
    ),
)
