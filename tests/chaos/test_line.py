"""R3: a task that stands in line while those are begun that came after it is told; one that nobody could begin is not."""

from typing import Any

import pytest

from chaos.checker import line as standing
from tests.chaos.test_figures import LEASE, Told, line, moved, outage, still

LONG = standing.LONG_SECONDS
WORKERS = [line("born", 0.0, pid=pid, role="worker") for pid in (1, 2)]


def born(at: float, task: str) -> dict[str, Any]:
    return {**moved(at, "", "ready", task=task), "from_state": None}


def waits(task: str, since: float, until: float) -> list[dict[str, Any]]:
    return [born(since, task), moved(until, "ready", "running", task=task)]


def crowd(since: float, *, count: int = standing.PASSED) -> list[dict[str, Any]]:
    """Let many come after a moment, each of which is claimed at once."""
    return [event for n in range(count) for event in waits(f"n{n}", since + n / 100, since + n / 100 + 0.01)]


def told(lines: list[dict[str, Any]], events: list[dict[str, Any]], name: str = "job") -> list[str]:
    seen: Any = Told([*WORKERS, *lines, line("audited", 100.0)], events)
    seen.lines[0]["lease"] = LEASE
    seen.tasks = {event["subject"]: {"name": name} for event in events}
    return list(standing.nothing_is_passed_over(seen))


@pytest.mark.contract("R3")
@pytest.mark.parametrize(
    ("speaks", "lines", "events"),
    [
        (True, [], [*waits("t", 10.0, 15.1), *crowd(10.1)]),
        (False, [], [*waits("t", 10.0, 15.0), *crowd(10.1)]),  # for no longer than a recovery may take
        (False, [], [*waits("t", 10.0, 15.1), *crowd(10.1, count=standing.PASSED - 1)]),
        (False, [], [*waits("t", 10.0, 15.1), *crowd(8.0)]),  # they had come before it
        (False, [], [*waits("t", 10.0, 15.1), *crowd(14.0)]),  # most of them were claimed after it
        (True, [], waits("t", 10.0, 10.1 + LONG)),
        (False, [], waits("t", 10.0, 10.0 + LONG)),
        # It was taken back from a dead worker, or handed back, and stands there again.
        (True, [], [
            *waits("t", 3.0, 4.0), moved(10.0, "running", "ready", task="t"), moved(15.1, "ready", "running", task="t"),
            *crowd(10.1),
        ]),
        # Who comes back has its old place, and may come first.
        (False, [], [*waits("t", 10.0, 15.1), *(
            event for n in range(standing.PASSED) for event in (
                *waits(f"n{n}", 9.0, 9.1), moved(11.0, "running", "ready", task=f"n{n}"),
                moved(11.1, "ready", "running", task=f"n{n}"),
            )
        )]),
        (False, [], [born(10.0, "t"), moved(50.0, "ready", "cancelled", task="t"), *crowd(10.1)]),
        # Nobody was awake, the database was away, or a stranger held the row.
        (False, [*still(1, 11.0, 12.0), *still(2, 11.0, 12.0)], [*waits("t", 10.0, 15.1), *crowd(10.1)]),
        (True, still(1, 11.0, 12.0), [*waits("t", 10.0, 15.1), *crowd(10.1)]),
        (False, [outage(10.5, 11.0)], [*waits("t", 10.0, 15.1), *crowd(10.1)]),
        (False, [line("struck", 11.0, kind="hold", child=9, rows=["t"]), line("released", 11.2, child=9)],
         [*waits("t", 10.0, 15.1), *crowd(10.1)]),
        (True, [line("struck", 11.0, kind="hold", child=9, rows=["u"]), line("released", 11.2, child=9)],
         [*waits("t", 10.0, 15.1), *crowd(10.1)]),
    ],
)  # fmt: skip
def test_one_that_many_passed_or_that_waited_for_long_is_told(
    speaks: bool, lines: list[dict[str, Any]], events: list[dict[str, Any]]
) -> None:
    found = told(lines, events)

    assert [each.partition(" stood in line for ")[0] for each in found] == ["t"] * speaks, found


@pytest.mark.contract("R3")
def test_what_fails_a_try_or_parks_waits_by_itself() -> None:
    assert told([], waits("t", 10.0, 90.0), name="shaky") == []
