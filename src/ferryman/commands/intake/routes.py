"""Which results have follow-ups: declared by workers, read where results are settled."""

from __future__ import annotations

from collections.abc import Sequence

from ferryman.commands.store import inbox
from ferryman.kernel.db import Tx


async def declare(tx: Tx, types: Sequence[str]) -> None:
    """Say that results of these types have follow-ups; whoever settles one starts them from now on."""
    await inbox.declare_routes(tx, types)
