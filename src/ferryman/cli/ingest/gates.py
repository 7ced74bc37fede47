"""`ferryman ingest gates`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ferryman.cli import spelling
from ferryman.cli.options import PLAIN, Options
from ferryman.ingest.intake.gates import GateRow

TIMES = ("next_at", "closed_until", "quota_until", "halved_at")


async def gates(*, options: Options = PLAIN) -> None:
    """Show how fast each source may be asked now, and why."""
    async with options.app() as app:
        found = await app.ingest.gates()
    screen = options.screen
    if screen.json:
        screen.document({"gates": [_told(each) for each in found]})
    elif not found:
        screen.say("No source has been asked yet.")
    else:
        columns = ("source", "endpoint", "credential", "rate", "best", "good", "slow", "quota", "")
        screen.table(columns, (_row(each) for each in found))


def _row(each: GateRow) -> tuple[Any, ...]:
    quota = "" if each.quota_until is None else f"{each.quota_left} until {spelling.moment(each.quota_until)}"
    return (
        each.source, each.endpoint, each.credential, f"{each.rate:.3g}/s", f"{each.top:.3g}/s", each.good, each.slow, quota,
        each.says,
    )  # fmt: skip


def _told(each: GateRow) -> dict[str, Any]:
    told = asdict(each)
    return told | {name: None if told[name] is None else told[name].isoformat() for name in TIMES}
