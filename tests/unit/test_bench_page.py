"""What the page tells beside the verdicts."""

from __future__ import annotations

from typing import Any

from bench import beside, report
from bench.bars import Results


def line(work: str, *, peer: str = "ferryman", round: int = 0, **figures: float) -> dict[str, Any]:
    return {"work": work, "round": round, "peer": peer, "seconds": 1.0, "others": 0.0, "figures": figures}


def cells(table: str, what: str) -> list[str]:
    [row] = [row for row in table.splitlines() if row.startswith(f"| {what}")]
    return [cell.strip() for cell in row.strip("|").split("|")][1:]


def test_the_memory_of_a_worker_is_told_of_more_than_the_drain() -> None:
    found = Results([line("steps", memory=59.0), line("commands", memory=68.0), line("turns", memory=70.0)])

    assert cells(report.figures(found, ["ferryman"]), "memory peak in 10-step workflows, MB") == ["59"]
    [table] = beside.told(found)
    assert cells(table, "memory at most, commands") == ["68"]
    assert cells(table, "memory at most, turns") == ["70"]
