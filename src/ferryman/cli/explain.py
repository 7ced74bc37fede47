"""`ferryman explain`."""

from __future__ import annotations

from typing import Annotated

from rich.text import Text

from ferryman.cli.options import PLAIN, Options
from ferryman.cli.screen import Screen, cell
from ferryman.cli.spelling import clean
from ferryman.cli.words import command, says
from ferryman.tasks.intake.explain import Explanation

SHOWN = (
    "domain",
    "task_id",
    "schedule_id",
    "agent_id",
    "name",
    "queue",
    "endpoint",
    "plan",
    "batch",
    "command",
    "turn",
    "tenant",
)


async def explain(
    id: Annotated[str, says("The id of anything; or its task_id, schedule_id or agent_id.")],
    /,
    *,
    options: Options = PLAIN,
) -> None:
    """Say what it is doing, why it is not running, and what ends it and when."""
    async with options.app() as app:
        told = await app.explain(id)
    screen = options.screen
    if screen.json:
        screen.document(told.as_json())
        return
    _show(screen, told)


def _show(screen: Screen, told: Explanation) -> None:
    pairs = [(name, told.about.get(name)) for name in SHOWN]
    screen.pairs([*pairs, ("state", told.state)])
    screen.print("")
    screen.print(told.doing, style="bold")
    for reason in told.reasons:
        screen.print(Text("  ").append(clean(reason.says)).append(f"  ({reason.code})", style="dim"))
    if told.ends is not None:
        screen.print(Text("  ").append(cell(told.ends.says)))


program = command("explain", explain)
