"""Slices are stored with what they ask for; one that cannot be asked for fails, and the others go on (I1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from ferryman.ingest.model import Cut
from ferryman.ingest.registry import Declared
from ferryman.ingest.rules import keys
from ferryman.ingest.store import plans
from ferryman.kernel import errors, ids
from ferryman.kernel.db import Tx

SET = 1000


async def store(
    tx: Tx,
    plan_id: UUID,
    declared: Declared,
    cuts: Sequence[Cut],
    *,
    operation: str,
    expression: Mapping[str, Any],
    expr_hash: str,
    depth: int,
    priority: int,
    ends_after: timedelta,
) -> list[UUID]:
    """Give birth to slices; answer with their ids."""
    made: list[tuple[UUID, Cut, str, Mapping[str, Any]]] = []
    failed: dict[UUID, str] = {}
    for cut in cuts:
        id = ids.new_id()
        asked: Mapping[str, Any] = {}
        try:
            asked = declared.ask(expression, cut)
        except Exception as error:  # noqa: BLE001 - a source's own code; its slice tells the reason
            failed[id] = errors.said(error)[:2000]
        spec = cut.spec()
        signature = keys.signature(declared.name, declared.endpoint, operation, expr_hash=expr_hash, spec=spec)
        made.append((id, cut, signature, {"request": dict(asked)}))
    for first in range(0, len(made), SET):
        part = made[first : first + SET]
        await plans.cut(tx, plan_id, part, depth=depth, priority=priority, ends_after=ends_after)
    if failed:
        await plans.fail(tx, failed)
    return [id for id, *_ in made]
