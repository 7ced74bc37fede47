"""`ferryman ingest`: plan, run, see how far it is, prove what it did."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cyclopts import App

from ferryman.cli.ingest import gates, look, move, plan

program = App(name="ingest", help="Plan ingestion, see how far it is, prove what it did.", help_format="plaintext")

_COMMANDS: dict[str, Callable[..., Any]] = {
    "plan": plan.plan,
    "backfill": plan.backfill,
    "run": plan.run,
    "status": look.status,
    "blackbox": look.blackbox,
    "gates": gates.gates,
    "quarantine": look.quarantine,
    "replay": look.replay,
    "rewind": move.rewind,
}

for _order, (_name, _function) in enumerate(_COMMANDS.items()):
    program.command(_function, name=_name, sort_key=_order)
