"""Why does it not run? One answer: what it is doing, why it is not running, and what ends it (K22).

The answer is made by one SQL function, so that it is the same in psql, in Python and on the command line. Each domain has its
reasons in SQL functions of its own, which that one finds by their names.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from ferryman.kernel import ids
from ferryman.kernel.db import Tx
from ferryman.tasks import store
from ferryman.tasks.rules import request


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason: a stable code, a sentence, when it ends if a time is known, and what a program wants to know."""

    code: str
    says: str
    until: datetime | None
    about: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Ends:
    """The rule that ends a live object: when it acts, and by when the object has ended for good."""

    rule: str
    ends_by: datetime
    terminal_by: datetime | None
    says: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """One object: what it is doing, why it is not running, and what ends it (nothing, when it has ended)."""

    id: UUID
    domain: str
    state: str
    doing: str
    reasons: tuple[Reason, ...]
    ends: Ends | None
    about: Mapping[str, Any]

    def codes(self) -> list[str]:
        """Name the reasons."""
        return [each.code for each in self.reasons]

    def as_json(self) -> dict[str, Any]:
        """Return the answer as SQL gave it."""
        return dict(self.about)


async def explain(tx: Tx, task_id: str | UUID, *, tenant: str) -> Explanation | None:
    """Explain an object of a tenant, by its id or by the task_id its creator gave it."""
    if isinstance(task_id, UUID):
        told = await store.explain(tx, tenant=tenant, id=task_id, task_id=None)
    else:
        name = ids.check_name(task_id, "task_id")
        told = await store.explain(tx, tenant=tenant, id=request.as_uuid(name), task_id=name)
    return None if told is None else _read(json.loads(told))


def _read(told: dict[str, Any]) -> Explanation:
    ends = told["ends"]
    return Explanation(
        id=UUID(told["id"]),
        domain=told["domain"],
        state=told["state"],
        doing=told["doing"],
        reasons=tuple(
            Reason(each["code"], each["says"], _time(each["until"]), each["about"]) for each in told["reasons"]
        ),
        ends=ends
        and Ends(ends["rule"], datetime.fromisoformat(ends["ends_by"]), _time(ends["terminal_by"]), ends["says"]),
        about=told,
    )


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
