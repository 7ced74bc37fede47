"""What a person or a program is told of a schedule."""

from __future__ import annotations

from ferryman.app.schedules import Schedule
from ferryman.cli import spelling
from ferryman.cli.options import Options
from ferryman.kernel import duration
from ferryman.tasks.model import ScheduleRecord


def told(made: Schedule, options: Options) -> None:
    """Answer a create."""
    screen = options.screen
    if screen.json:
        screen.document(made.answer())
        return
    schedule = made.schedule
    due = f", next at {spelling.moment(schedule.next_run_at)}" if schedule.next_run_at else ""
    there = "  (it was there already)" if made.idempotent_hit else ""
    screen.print(f"{schedule.schedule_id}  {schedule.state.value}{due}{there}")
    screen.say(f"ferryman schedule show {schedule.schedule_id}", style="dim")


def rhythm(schedule: ScheduleRecord) -> str:
    """Return in a few words when a schedule fires."""
    if schedule.interval_ms is not None:
        return f"every {duration.show(schedule.interval)}"
    return f"{schedule.cron_expr} {schedule.timezone}"
