"""`ferryman doctor`."""

from __future__ import annotations

from typing import Annotated

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
    line = Text(MARKS[reading.verdict.value], style=STYLES[reading.verdict.value])
    line.append(f" {reading.name:<12} ", style="bold")
    line.append(clean(reading.says), style="")
    screen.print(line)
    if reading.advice:
        screen.print(Text(f"     {'':<12} → {clean(reading.advice)}", style="" if reading.verdict is BAD else "dim"))


program = command("doctor", doctor)
