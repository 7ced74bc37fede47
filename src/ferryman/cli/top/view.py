"""How a snapshot looks in a terminal; nothing here asks or waits.

What somebody should do something about stands first: a terminal of 24 lines cuts the last ones.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ferryman.app.figures import BORN, CANCELLED, FAILED, STARTED, SUCCEEDED
from ferryman.cli.spelling import clean, moment, seconds
from ferryman.cli.top.keys import Keys
from ferryman.cli.top.snapshot import LATELY, Snapshot

LEVELS = " ▁▂▃▄▅▆▇█"
SPAN = 60
SHOWN = {BORN: "created", STARTED: "started", SUCCEEDED: "succeeded", FAILED: "failed", CANCELLED: "cancelled"}
STYLES = {FAILED: "red", SUCCEEDED: "green"}
# Lines that are always there: the head, throughput, the heads and feet of two tables, the lines between, keys.
FIXED = 15
# What throughput needs beside its bars.
BESIDE = 42
BESIDE_QUEUES = 56


def draw(
    shown: Snapshot, *, keys: Keys | None = None, trouble: str = "", height: int = 200, width: int = 200
) -> RenderableType:
    """Draw the whole screen; tables are cut to what fits into its height, and bars to its width."""
    alarms = _alarms(shown)
    said = sum(1 + len(line) // width for line in alarms)
    room = max(1, (height - FIXED - said) // 2)
    return Group(
        _head(shown, keys),
        *([Text(f"The database is away, and looked for: {clean(trouble)}", style="bold red")] if trouble else []),
        *alarms,
        Text(),
        _throughput(shown, span=max(10, min(SPAN, width - BESIDE))),
        Text(),
        _queues(shown, room),
        Text(),
        _workers(shown, room, most=max(10, width - BESIDE_QUEUES)),
        *([Text("q leave   p hold   + - how often", style="dim")] if keys is not None else []),
    )


def sparkline(values: Sequence[int]) -> str:
    """Draw counts as one line of bars; the highest fills its cell."""
    most = max(values, default=0)
    # What is there is seen, however little it is beside the rest.
    return "".join(LEVELS[0 if not value else max(1, value * 8 // most)] for value in values)


def _head(shown: Snapshot, keys: Keys | None) -> Text:
    figures = shown.figures
    head = Text.assemble(("ferryman", "bold"), f"  tenant {clean(shown.tenant)}  {moment(figures.at)}")
    if keys is not None:
        head.append("  held still" if keys.still else f"  every {seconds(keys.every.total_seconds())}", style="dim")
    return head


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold", caption_justify="left")
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number == 0 else "right", no_wrap=True)
    return table


def _throughput(shown: Snapshot, *, span: int) -> Table:
    figures = shown.figures
    table = _table("Throughput", "now /s", "last minute")
    table.add_column(f"the last {span} s", justify="left", no_wrap=True)
    for kind, name in SHOWN.items():
        style = STYLES.get(kind, "") if figures.total(kind, SPAN) else "dim"
        table.add_row(
            Text(name, style=style),
            f"{figures.rate(kind, LATELY):,.1f}",
            f"{figures.total(kind, SPAN):,}",
            Text(sparkline(figures.series[kind][-span:]), style=style),
        )
    return table


def _queues(shown: Snapshot, room: int) -> RenderableType:
    depths = sorted(shown.figures.depths, key=lambda each: (-(each.ready + each.running + each.pending), each.queue))
    if not depths:
        return Text("Queues: nothing waits and nothing runs.", style="dim")
    table = _table("Queues", "ready", "running", "later", "oldest waits")
    for each in depths[:room]:
        waits = seconds(each.oldest.total_seconds()) if each.ready else ""
        named = Text(clean(each.queue)).append(" paused" if each.queue in shown.figures.paused else "", style="yellow")
        table.add_row(named, f"{each.ready:,}", f"{each.running:,}", f"{each.pending:,}", waits)
    if len(depths) > room:
        table.caption = f"and {len(depths) - room} more"
    return table


def _workers(shown: Snapshot, room: int, *, most: int) -> RenderableType:
    if not shown.workers:
        return Text("Workers: none is alive. `ferryman worker --app …` starts one.", style="yellow")
    table = _table(f"Workers ({len(shown.workers)})", "up for", "handlers", "version")
    table.add_column("queues", justify="left", no_wrap=True)
    for each in shown.workers[:room]:
        up = max(0.0, (shown.figures.at - each.started_at).total_seconds())
        table.add_row(
            f"{clean(each.host)}:{each.pid}", seconds(up), str(len(each.handlers)), clean(each.version),
            textwrap.shorten(clean(", ".join(each.queues)), most, placeholder=" …"),
        )  # fmt: skip
    if len(shown.workers) > room:
        table.caption = f"and {len(shown.workers) - room} more"
    return table


def _alarms(shown: Snapshot) -> list[Text]:
    if not shown.alarms:
        return [Text("Alarms: none.", style="green")]
    lines = []
    for each in shown.alarms:
        lines.append(Text(f"Alarm, {each.name}: {clean(each.says)}", style="red"))
        if each.advice:
            lines.append(Text(f"  → {clean(each.advice)}", style="dim"))
    return lines
