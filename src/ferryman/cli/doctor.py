"""`ferryman doctor`."""

from __future__ import annotations

from typing import Annotated

from rich.table import Table
from rich.text import Text

from ferryman.app import doctor as doctors
from ferryman.app.doctor.report import BAD, Reading, Report
from ferryman.cli import exits
from ferryman.cli.options import PLAIN, Options
from ferryman.cli.screen import STYLES, Screen
from ferryman.cli.spelling import clean
from ferryman.cli.words import command, flag

MARKS = {"good": "ok  ", "note": "note", "bad": "BAD "}


async def doctor(
    *,
    quick: Annotated[bool, flag("Leave out the checks that read whole tables.")] = False,
    all: Annotated[bool, flag("List every live object with the rule that ends it and by when.")] = False,
    options: Options = PLAIN,
) -> int:
    """Look at everything that is worth knowing at 3 a.m.

    Reads and changes nothing. 0: healthy. 1: somebody should do something. 3: the database cannot be reached.
    """
    screen = options.screen
    report = await doctors.examine(options.existing(), deep=not quick, everything=all)
    if screen.json:
        screen.document(report.as_dict())
    else:
        _show(screen, report)
    if not report.reachable:
        return exits.DATABASE
    return exits.OK if report.healthy else exits.FAILED


def _show(screen: Screen, report: Report) -> None:
    for reading in report.readings:
        _line(screen, reading)
    if report.live:
        columns = ("domain", "id", "tenant", "state", "ended by", "by", "for good by")
        screen.table(columns, (tuple(row.values()) for row in report.live))
    found = len(report.findings)
    screen.print("")
    screen.print("Healthy." if report.healthy else f"{found} finding{'s' if found > 1 else ''}.", style="bold")


def _line(screen: Screen, reading: Reading) -> None:
    """Write a reading beside its name, so that the names stay a column however much there is to say."""
    line = Table.grid(padding=(0, 1, 0, 0))
    line.add_column(width=4)
    line.add_column(width=12)
    line.add_column(overflow="fold")
    said = Text("\n").join(Text(clean(each)) for each in reading.says.splitlines())
    line.add_row(
        Text(MARKS[reading.verdict.value], style=STYLES[reading.verdict.value]), Text(reading.name, style="bold"), said
    )
    if reading.advice:
        line.add_row("", "", Text(f"→ {clean(reading.advice)}", style="" if reading.verdict is BAD else "dim"))
    screen.print(line)


program = command("doctor", doctor)
