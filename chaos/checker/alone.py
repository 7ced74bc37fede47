"""Whether one who is left alone does all of its part: what others did beside it would hide what it has ceased to do.

While everybody else who works or watches stands still, one that works must begin a task, take a turn and ask for a page of a
window; and one that works or watches must fire the schedule and take back what those had in hand who stand still. What it
begins it says itself. Firings and ends of leases have no name in the log: nobody else was awake, and what the others had sent
before they were stopped has arrived after a moment.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from chaos.checker import claims
from chaos.checker.evidence import Evidence
from chaos.history import Line

WORKER = "worker"
BEGINS, TURNS, WINDOWS = "began no task", "took no turn", "took no window"
FIRES, REAPS = "fired nothing", "took nothing back from those who stood still"
ARRIVED_SECONDS = 0.5


def undone(seen: Evidence, one: Line) -> list[str]:
    """Name what one did not do while it was left alone."""
    since, until = one["since"], one["at"]
    said = [line for line in seen.lines if since <= line["at"] <= until and line.get("pid") == one["child"]]
    found = unbegun(said, one["role"])
    found += [] if _fired(seen, since, until) else [FIRES]
    return found if _took_back(seen, since + ARRIVED_SECONDS, until) else [*found, REAPS]


def unbegun(said: Sequence[Line], role: str) -> list[str]:
    """Name what one did not begin, by what it said; who only watches need not."""
    done = {
        BEGINS: any(line["what"] in claims.OF_TASKS for line in said),
        TURNS: any(line["what"] in claims.OF_TURNS and "turn" in line for line in said),
        WINDOWS: any(line["what"] == "asked" for line in said),
    }
    return [part for part, was in done.items() if not was and role == WORKER]


def _fired(seen: Evidence, since: float, until: float) -> bool:
    """Say whether a firing of that time was made in that time: what is made up for later is others' doing."""
    ahead = claims.offset(seen)
    begin = datetime.fromtimestamp(since + ahead, UTC)
    fired = {id for id, row in seen.tasks.items() if row["schedule"] is not None and row["fire_time"] > begin}
    return any(
        event["subject"] in fired and not event["from_state"] and event["at"] - ahead <= until
        for event in seen.events
        if event["kind"] == "task"
    )


def _took_back(seen: Evidence, since: float, until: float) -> bool:
    return any(claim.lapsed and since < claim.until <= until for claim in claims.over(seen).values())


def who_is_left_alone_does_all_its_part(seen: Evidence) -> Iterator[str]:
    """One that survived begins tasks, turns and windows, fires, and takes back what was held, also while nobody else does."""
    for one in seen.of("alone"):
        lasted = one["at"] - one["since"]
        yield from (f"{one['name']} was left alone for {lasted:.1f} s and {part}" for part in undone(seen, one))


def left(seen: Evidence) -> dict[str, int]:
    """Count who was left alone, by what its part is."""
    roles = [one["role"] for one in seen.of("alone")]
    return {role: roles.count(role) for role in (WORKER, "dog")}
