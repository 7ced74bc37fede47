"""What turns did, and remember."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict
from uuid import UUID

from ferryman.agents.model import Step, StepRecord
from ferryman.agents.store.words import words
from ferryman.kernel.db import Tx, load, many

_REMEMBER = load("ferryman.agents", "agent_steps/remember")
_LOAD = load("ferryman.agents", "agent_steps/load")


async def remember(tx: Tx, steps: Sequence[Step]) -> set[UUID]:
    """Remember what steps came to; answer with the turns that are still their holders'."""
    rows = await many(tx, _REMEMBER, steps=words(map(asdict, steps)))
    return {row["turn"] for row in rows if row["held"]}


async def load_steps(tx: Tx, turns: Collection[tuple[str, UUID]]) -> list[StepRecord]:
    """Read what turns (tenant, id) remember."""
    rows = await many(tx, _LOAD, tenants=[tenant for tenant, _ in turns], ids=[id for _, id in turns])
    return [StepRecord(*row) for row in rows]  # type: ignore[misc]  # a row is a sequence
