"""R3: what a run says of itself: why tasks were started again, what was fenced, how soon work came back, what was met."""

import math
import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from chaos import history, roles
from chaos.checker import able, again, cases, claims, figures, recovery, zombies
from chaos.checker.able import Able
from chaos.history import History
from ferryman.kernel import faults, telemetry

LEASE = 2.0


def start(at: float, pid: int, epoch: int) -> dict[str, Any]:
    return {"what": "start", "at": at, "pid": pid, "task": "t", "epoch": epoch}


def line(what: str, at: float, **more: Any) -> dict[str, Any]:
    return {"what": what, "at": at, **more}


def held(*rows: str) -> list[dict[str, Any]]:
    return [line("struck", 10.5, kind="hold", child=9, rows=rows), line("released", 12.9, child=9)]


STRUCK = [line("struck", 10.5, kind="freeze", child=1), line("thawed", 14.0, child=1)]


@pytest.mark.contract("R3")
def test_a_table_is_locked_from_when_it_was_asked_for_until_it_is_let_go() -> None:
    bars = [line("struck", 2.0, kind="bar", child=8, since=1.0), line("struck", 4.0, kind="bar", child=9, since=3.5)]

    assert able.barred([*bars, line("released", 5.0, child=8), line("released", 5.5, child=7)]) == [(1.0, 5.0)]


@pytest.mark.contract("R3")
@pytest.mark.parametrize(
    ("cause", "history", "first"),
    [
        (again.KILLED, [line("died", 11.0, child=1)], 10.0),
        (again.DONE, [line("effect", 10.9, task="t", epoch=1), line("died", 11.0, child=1)], 10.0),
        (again.NOTHING, [line("died", 14.0, child=1)], 10.0),
        (again.STILL, STRUCK, 10.0),
        (again.STILL, STRUCK, 14.1),  # it was claimed before, and begun by a ghost
        (again.NOTHING, [line("struck", 10.5, kind="pause", child=1), line("thawed", 10.9, child=1)], 10.0),
        (again.AWAY, [line("back", 11.0, killed=10.4)], 10.0),  # a short outage gives no grace
        (again.AWAY, [line("struck", 10.6, kind="bar", child=9, since=10.4), line("released", 11.0, child=9)], 10.0),
        (again.LOCKED, held("t"), 10.0),
        (again.NOTHING, held("another"), 10.0),
        (again.NOTHING, [], 10.0),
    ],
)
def test_a_second_start_is_put_down_to_the_fault_that_forced_it(
    cause: str, history: list[dict[str, Any]], first: float
) -> None:
    past = again.Past(history, lease=LEASE)

    found, unforced = again.causes([start(first, 1, 1), start(13.0, 2, 2)], past)

    assert {each: count for each, count in found.items() if count} == {cause: 1}
    told = f"t: claim 1 begun by 1 at {first:.3f}, then claim 2 begun by 2 at 13.000"
    assert unforced == ([told] if cause == again.NOTHING else [])


def renewal(at: float, action: str = "delay", *, pid: int = 1, thread: int = 7) -> dict[str, Any]:
    """Tell of a renewal that did not go out; a delay lasts for three and a half seconds with these leases."""
    return line("fault", at, point="renew.before", action=action, pid=pid, thread=thread)


@pytest.mark.contract("R3")
@pytest.mark.parametrize(
    ("cause", "history"),
    [
        (again.RENEWALS, [renewal(10.7)]),
        (again.RENEWALS, [renewal(7.2)]),  # it was under way when the task was claimed, and for long enough
        (again.NOTHING, [renewal(6.2)]),  # over when it was claimed
        (again.NOTHING, [renewal(11.9)]),  # too late to be the reason
        (again.NOTHING, [renewal(12.1)]),  # the claim was over
        (again.NOTHING, [renewal(10.7, pid=2)]),  # another's
        (again.NOTHING, [renewal(10.7, "away")]),  # sent again at once
        (again.RENEWALS, [renewal(10.7, "away"), renewal(11.4, "away")]),
        (again.NOTHING, [renewal(6.8), renewal(11.7, thread=8)]),  # of two keepers, each for a moment
        (again.NOTHING, [line("fault", 10.7, point="claim.committed", action="delay", pid=1, thread=7)]),
    ],
)
def test_renewals_force_a_start_if_they_were_held_up_within_the_claim(
    cause: str, history: list[dict[str, Any]]
) -> None:
    past = again.Past(history, {("t", 1): claims.Claim(9.9, 12.0, True)}, lease=LEASE)

    found, _ = again.causes([start(10.0, 1, 1), start(13.0, 2, 2)], past)

    assert {each: count for each, count in found.items() if count} == {cause: 1}


@pytest.mark.contract("R3")
@pytest.mark.parametrize(
    ("cause", "lapsed", "history"),
    [
        (again.KILLED, True, [line("died", 12.5, child=1)]),  # buried late
        (again.NOTHING, True, [line("effect", 12.2, task="u", epoch=1, pid=1), line("died", 12.5, child=1)]),
        # Its number was another's before, and is another's afterwards, who speaks and dies too.
        (
            again.KILLED,
            True,
            [line("died", 11.0, child=1), line("born", 12.2, pid=1, role="dog"), line("died", 14.0, child=1)],
        ),
        (
            again.KILLED,
            True,
            [line("died", 11.0, child=1), line("born", 12.2, pid=1, role="dog"), line("died", 12.5, child=1)],
        ),
        (again.NOTHING, True, [line("died", 9.8, child=1), line("died", 14.0, child=1)]),
        (again.NOTHING, False, [renewal(10.7)]),  # it was not for its lease that the claim ended
        (again.NOTHING, False, [line("back", 7.8, killed=7.0)]),
        (again.AWAY, False, [line("back", 8.0, killed=7.0)]),
        (again.AWAY, True, [line("back", 8.0, killed=7.0)]),  # a short outage may end a lease
    ],
)
def test_what_came_before_a_claim_or_after_it_forced_nothing(
    cause: str, lapsed: bool, history: list[dict[str, Any]]
) -> None:
    past = again.Past(history, {("t", 1): claims.Claim(9.9, 12.0, lapsed)}, lease=LEASE)

    found, _ = again.causes([start(10.0, 1, 1), start(13.0, 2, 2)], past)

    assert {each: count for each, count in found.items() if count} == {cause: 1}


# Three intervals are 1.8 s with these leases, so this one gets a grace.
OUTAGE = line("back", 10.5, killed=8.5)
ASLEEP = [
    line("born", 1.0, pid=5, role="dog"),
    line("struck", 6.0, kind="watch", child=5),
    line("thawed", 6.5, child=5),
]


@pytest.mark.contract("R3", "K24")
@pytest.mark.parametrize(
    ("cause", "lapsed", "history"),
    [
        (again.NOTHING, True, [OUTAGE]),
        (again.AWAY, True, [line("back", 10.5, killed=8.8)]),  # too short for a grace
        (again.AWAY, False, [OUTAGE]),  # it was not for its lease that the claim ended
        (again.AWAY, True, [OUTAGE, renewal(10.6, "away")]),  # held up otherwise too
        (again.AWAY, True, [line("back", 4.0, killed=3.9), OUTAGE]),  # less than two leases after another
        (again.NOTHING, True, [line("back", 3.0, killed=2.9), OUTAGE]),
        (again.AWAY, True, [line("struck", 5.0, kind="crash", child=9), OUTAGE]),
        (again.AWAY, True, [*ASLEEP, OUTAGE]),  # no watchdog had ticked for a while
        (
            again.AWAY,
            True,
            [OUTAGE, line("struck", 11.0, kind="bar", child=9, since=10.8), line("released", 11.5, child=9)],
        ),
    ],
)
def test_an_outage_excuses_the_end_of_a_lease_only_where_no_grace_was_due(
    cause: str, lapsed: bool, history: list[dict[str, Any]]
) -> None:
    past = again.Past(history, {("t", 1): claims.Claim(9.9, 12.0, lapsed)}, lease=LEASE)

    found, _ = again.causes([start(10.0, 1, 1), start(13.0, 2, 2)], past)

    assert {each: count for each, count in found.items() if count} == {cause: 1}


@pytest.mark.contract("R3")
@pytest.mark.parametrize(("since", "cause"), [(11.9, True), (12.1, False)])
@pytest.mark.parametrize("kind", ["freeze", "hold"])
def test_who_stood_still_or_was_held_after_a_claim_was_over_did_not_lose_it_by_that(
    kind: str, since: float, cause: bool
) -> None:
    struck = line("struck", since, kind=kind, child=1, rows=["t"])
    past = again.Past(
        [struck, line("thawed", 15.0, child=1), line("released", 15.0, child=1)],
        {("t", 1): claims.Claim(9.9, 12.0, True)},
        lease=LEASE,
    )

    found, _ = again.causes([start(10.0, 1, 1), start(16.0, 2, 2)], past)

    forced = again.STILL if kind == "freeze" else again.LOCKED
    assert {each: count for each, count in found.items() if count} == {forced if cause else again.NOTHING: 1}


@pytest.mark.contract("R3")
def test_a_fault_inside_of_a_process_is_written_down_with_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[tuple[str, str]] = []
    monkeypatch.setattr(telemetry, "fault", lambda *told: counted.append(told))
    told = History(tmp_path / "worker-0.0001.history")
    roles._tell_of_faults(told)
    began = time.monotonic()

    with faults.armed("renew.before=delay:0@2"):
        faults.point("renew.before")
        faults.point("renew.before")

    [said] = history.read(told.path)
    assert (said["what"], said["point"], said["action"]) == ("fault", "renew.before", "delay")
    assert began <= said["at"] <= time.monotonic()
    assert (said["pid"], said["thread"]) == (os.getpid(), threading.get_native_id())
    assert counted == [("renew.before", "delay")]


AWAKE = [
    line("born", 0.0, pid=1, role="worker"), line("working", 0.1, pid=1),
    line("born", 0.0, pid=2, role="worker"), line("working", 0.1, pid=2),
    line("born", 0.0, pid=3, role="dog"), line("working", 0.1, pid=3),
]  # fmt: skip


def still(pid: int, since: float, until: float) -> list[dict[str, Any]]:
    return [line("struck", since, kind="freeze", child=pid), line("thawed", until, child=pid)]


@pytest.mark.contract("R3")
@pytest.mark.parametrize(
    ("roles", "waited", "history"),
    [
        (able.WORKERS, 5.0, []),
        # One of two workers stands still, or both, beyond the lease and before its end.
        (able.WORKERS, 5.0, still(1, 12.5, 14.5)),
        (able.WORKERS, 4.5, [*still(1, 12.5, 14.5), *still(2, 13.0, 13.5)]),
        (able.WORKERS, 5.0, [*still(1, 10.5, 11.9), *still(2, 10.5, 11.9)]),
        (able.WORKERS, 4.0, [*still(1, 10.5, 13.0), *still(2, 10.5, 13.0)]),
        # Somebody who only watches can take it back all the same.
        (able.WATCHERS, 5.0, [*still(1, 10.5, 13.0), *still(2, 10.5, 13.0)]),
        # Another one is born: that it has yet to begin is its own affair.
        (able.WORKERS, 4.9, [
            *still(1, 10.5, 14.5), line("died", 11.0, child=2),
            line("born", 12.1, pid=4, role="worker"), line("working", 12.8, pid=4),
        ]),
        # A stranger holds its row, or another's.
        (able.WATCHERS, 4.0, [line("struck", 11.0, kind="hold", child=9, rows=["t"]), line("released", 13.0, child=9)]),
        (able.WATCHERS, 5.0, [line("struck", 11.0, kind="hold", child=9, rows=["u"]), line("released", 13.0, child=9)]),
        # Both at once count once.
        (able.WORKERS, 3.5, [
            line("struck", 11.0, kind="hold", child=9, rows=["t"]), line("released", 13.0, child=9),
            *still(1, 12.5, 13.5), *still(2, 12.5, 13.5),
        ]),
    ],
)  # fmt: skip
def test_beyond_the_lease_the_clock_stands_still_while_nobody_could_take_it_up(
    roles: tuple[str, ...], waited: float, history: list[dict[str, Any]]
) -> None:
    lines = sorted([*AWAKE, *history, line("audited", 20.0)], key=lambda each: float(each["at"]))

    found = Able(lines, lease=LEASE).waited("t", 10.0, 15.0, lease=LEASE, roles=roles)

    assert found == pytest.approx(waited)


LATE = [line("invoke", 14.0, pid=1), line("ok", 15.0, pid=1)]


@pytest.mark.contract("R3")
@pytest.mark.parametrize(
    ("worst", "asks"),
    [
        (4.0, [line("invoke", 10.5, pid=1), line("ok", 15.0, pid=1)]),  # it had asked while the database was away
        (1.0, LATE),  # nobody asked before: too much was in line
        (3.0, [line("invoke", 12.0, pid=2), line("refused", 12.5, pid=2), *LATE]),
        (1.0, [line("invoke", 10.2, pid=2), line("refused", 10.5, pid=2), *LATE]),
    ],
)
def test_the_first_success_after_an_outage_is_waited_for_from_when_somebody_asks(
    worst: float, asks: list[dict[str, Any]]
) -> None:
    told: Any = Told([line("back", 11.0, killed=10.0, pid=0), *asks])

    assert figures._first_successes(told) == (1, worst, 4.0, 5.0)


class Told:
    """What a checker looks at, as far as figures are concerned: lines, and what the log says, a second ahead by the clock."""

    def __init__(self, lines: Sequence[dict[str, Any]] = (), events: Sequence[dict[str, Any]] = ()) -> None:
        self.lines = sorted([line("clock", 0.0, wall=1000.0, pid=0), *lines], key=lambda each: float(each["at"]))
        self.tasks: dict[str, dict[str, Any]] = {}
        self.rows: list[dict[str, Any]] = []
        self.events = sorted(events, key=lambda each: float(each["at"]))

    def ask(self, _question: str) -> list[dict[str, Any]]:
        return self.rows

    def of(self, *whats: str, act: str | None = None) -> list[dict[str, Any]]:
        return [each for each in self.lines if each["what"] in whats and (act is None or each.get("act") == act)]


def moved(at: float, from_state: str, to_state: str, reason: str | None = None, task: str = "t") -> dict[str, Any]:
    return {
        "kind": "task", "subject": task, "at": 1000.0 + at, "from_state": from_state, "to_state": to_state, "reason": reason,
        "code": None,
    }  # fmt: skip


CLAIMED, AGAIN = moved(8.9, "ready", "running"), moved(13.9, "ready", "running")
LAPSED = moved(12.25, "running", "ready", claims.LAPSED)
KILLED = [start(9.0, 1, 1), line("died", 10.0, child=1)]


@pytest.mark.contract("R3")
@pytest.mark.parametrize(
    ("more", "events", "taken_back", "begun", "left_out"),
    [
        ([start(14.0, 2, 2)], [CLAIMED, LAPSED, AGAIN], 12.25, 14.0, {}),
        # Its handler had come to its end, and nothing of that was settled.
        ([start(14.0, 2, 2), line("effect", 9.9, task="t", epoch=1)], [CLAIMED, LAPSED, AGAIN], 12.25, 14.0, {}),
        # Its holder had parked it, or handed it back, before it died.
        ([start(14.0, 2, 2)], [CLAIMED, moved(9.5, "running", "ready", "parked"), AGAIN], None, None, {}),
        # Its settling was under way when it died.
        ([], [CLAIMED, moved(10.01, "running", "succeeded")], None, None, {recovery.ARRIVED: 1}),
        # Nobody began it anew: it was cancelled while it stood in line.
        ([], [CLAIMED, LAPSED, moved(13.0, "ready", "cancelled")], 12.25, None, {recovery.ENDED: 1}),
    ],
)
def test_a_recovery_is_what_its_holder_had_in_hand_when_it_was_killed(
    more: list[dict[str, Any]],
    events: list[dict[str, Any]],
    taken_back: float | None,
    begun: float | None,
    left_out: dict[str, int],
) -> None:
    told: Any = Told([*KILLED, *more], events)

    found = recovery.recoveries(told)

    waits: list[list[recovery.Wait]] = [[] if until is None else [("t", 10.0, until)] for until in (taken_back, begun)]
    judged = [wait for case in found.begun_judged for wait in case.waits]
    assert [found.taken_back, found.begun] == [found.taken_back, judged] == waits
    assert {why: count for why, count in found.left_out.items() if count} == left_out


@pytest.mark.contract("R3")
@pytest.mark.parametrize(
    ("deaths", "found"),
    [
        ([10.0, 30.0], [10.0]),  # the number came again, and that one died too
        ([5.0, 10.0], [10.0]),  # it had been another's
        ([5.0], []),  # its holder lives
        ([5.0, 30.0], []),  # and dies long after its claim was over
    ],
)
def test_a_death_is_of_who_had_the_number_when_it_began(deaths: list[float], found: list[float]) -> None:
    told: Any = Told(
        [start(9.0, 1, 1), *(line("died", at, child=1) for at in deaths), start(14.0, 2, 2)], [CLAIMED, LAPSED, AGAIN]
    )

    assert [death for _, death, _ in recovery.recoveries(told).taken_back] == found


def turned(at: float, from_state: str, to_state: str, code: str | None = None) -> dict[str, Any]:
    return {
        "kind": "agent.state", "subject": "u", "at": 1000.0 + at, "from_state": from_state, "to_state": to_state,
        "code": code, "reason": None,
    }  # fmt: skip


TAKEN = [turned(8.0, "dispatched", "running"), turned(12.25, "running", "running", claims.LAPSED)]
WAITED = [
    turned(8.0, "dispatched", "running"),
    turned(8.5, "running", "suspended"),
    turned(9.0, "suspended", "running"),
]
OVER = [turned(12.25, "running", "running", claims.LAPSED), turned(13.9, "running", "running", "taken_over")]


@pytest.mark.contract("R3")
@pytest.mark.parametrize(
    ("work", "lines", "events"),
    [
        *((work, [line(what, 9.0, task="t", epoch=1, pid=1), line(what, 14.0, task="t", epoch=2, pid=2)],
           [CLAIMED, LAPSED, AGAIN]) for what, work in claims.OF_TASKS.items()),
        ("turns", [line("sails", 9.0, turn="u", pid=1), line("sails", 14.0, turn="u", pid=2)],
         [*TAKEN, turned(13.9, "running", "running", "taken_over")]),
        ("turns of batches", [line("stroke", 9.0, turn="u", pid=1), line("stroke", 14.0, turn="u", pid=2)],
         [*TAKEN, turned(13.9, "running", "running", "taken_over")]),
        # It had waited for its tools, and went on in another process than it began in, which said so by a step.
        ("turns",
         [line("sails", 8.1, turn="u", pid=7), line("ran", 9.1, turn="u", pid=1), line("sails", 14.0, turn="u", pid=2)],
         [*WAITED, *OVER]),
    ],
)  # fmt: skip
def test_turns_capabilities_steps_and_tools_are_recovered_like_tasks(
    work: str, lines: list[dict[str, Any]], events: list[dict[str, Any]]
) -> None:
    told: Any = Told([line("died", 10.0, child=1), *lines], events)

    found = recovery.recoveries(told)

    assert found.lost == [recovery.Lost(work, lines[0].get("task", "u"), 10.0, begun=True)]
    assert [wait[1:] for wait in found.taken_back] == [(10.0, 12.25)]
    assert [wait[1:] for wait in found.begun] == [(10.0, 14.0)]
    assert [case.work for case in found.begun_judged] == [work]
    assert found.unbegun == 0


@pytest.mark.contract("R3")
@pytest.mark.parametrize(
    ("lines", "events", "unbegun"),
    [
        ([], [CLAIMED, LAPSED], 1),
        ([], TAKEN, 1),
        # The one who is dead had let it wait; whoever held it afterwards said nothing.
        ([line("sails", 8.1, turn="u", pid=1)], [*WAITED, *OVER], 1),
        ([], [CLAIMED, moved(9.5, "running", "ready", "parked")], 0),
        ([line("ran", 9.0, task="t", step="load", pid=1)], [CLAIMED, LAPSED], 1),
    ],
)
def test_a_claim_that_lapsed_before_its_handler_spoke_is_counted_and_put_down_to_nobody(
    lines: list[dict[str, Any]], events: list[dict[str, Any]], unbegun: int
) -> None:
    told: Any = Told([line("died", 10.0, child=1), *lines], events)

    found = recovery.recoveries(told)

    assert (found.unbegun, found.taken_back) == (unbegun, [])


@pytest.mark.contract("R3")
def test_whoever_claims_it_next_and_falls_before_it_begins_makes_one_wait_by_the_clock_and_two_that_are_judged() -> (
    None
):
    told: Any = Told(
        [*KILLED, start(17.0, 3, 3)],
        [CLAIMED, LAPSED, AGAIN, moved(16.0, "running", "ready", claims.LAPSED), moved(16.5, "ready", "running")],
    )

    found = recovery.recoveries(told)

    assert found.begun == [("t", 10.0, 17.0)]
    assert found.begun_judged == [("tasks", [("t", 10.0, pytest.approx(13.9)), ("t", pytest.approx(13.9), 17.0)])]
    assert found.fell == 1


def outage(killed: float, back: float) -> dict[str, Any]:
    return line("back", back, killed=killed)


def bar(since: float, until: float) -> list[dict[str, Any]]:
    return [line("struck", since + 0.1, kind="bar", child=9, since=since), line("released", until, child=9)]


@pytest.mark.contract("R3")
@pytest.mark.parametrize(
    ("until", "waited", "history"),
    [
        (13.0, 3.0, []),
        # It was over, with the grace after it, before the lease of the dead was: that passed all the same.
        (13.0, 3.0, [outage(6.0, 8.5)]),
        (13.0, 3.0, [outage(7.0, 9.0)]),
        # Within the lease: the grace ends after it, at 13.5, and the clock stands still from the one to the other.
        (14.5, 3.0, [outage(10.0, 10.5)]),
        (15.0, 3.5, [outage(10.0, 10.5)]),
        (40.0, 28.5, [outage(10.0, 10.5)]),  # left lying, whatever came once
        # Longer than the lease.
        (26.0, 3.0, [outage(10.5, 22.0)]),
        # After it: what had not come before had not, and the rest comes after the grace.
        (12.5, 2.5, [outage(12.5, 13.0)]),
        (16.5, 3.0, [outage(12.5, 13.0)]),
        (40.0, 26.5, [outage(12.5, 13.0)]),
        # Two, and the graces of both; where they meet, once.
        (16.0, 3.0, [outage(10.0, 10.5), outage(11.5, 12.0)]),
        (18.5, 3.5, [outage(10.0, 10.5), outage(14.0, 14.5)]),
        (60.0, 41.5, [outage(10.0, 10.5), outage(30.0, 34.0)]),
        # A backend that was killed, a table that was locked, everybody relieved.
        (15.0, 3.0, [line("struck", 11.0, kind="crash")]),
        (16.0, 3.0, bar(11.0, 13.0)),
        (17.0, 3.0, [line("relieved", 11.0), line("restored", 14.0)]),
        (40.0, 26.0, [line("relieved", 11.0), line("restored", 14.0)]),
    ],
)
def test_beyond_the_lease_the_clock_stands_still_in_an_outage_and_for_a_lease_of_grace(
    until: float, waited: float, history: list[dict[str, Any]]
) -> None:
    lines = sorted([*AWAKE, *history, line("audited", 70.0)], key=lambda each: float(each["at"]))

    found = Able(lines, lease=LEASE).waited("t", 10.0, until, lease=LEASE, roles=able.WATCHERS)

    assert found == pytest.approx(waited)


@pytest.mark.contract("R3")
def test_what_met_an_outage_is_judged_too() -> None:
    told: Any = Told([*KILLED, start(14.0, 2, 2), outage(10.0, 10.5)], [CLAIMED, LAPSED, AGAIN])

    found = recovery.recoveries(told)

    assert [case.waits for case in found.begun_judged] == [found.begun] == [[("t", 10.0, 14.0)]]
    assert sum(found.left_out.values()) == 0


def run(*, born: float = 1.0, planned: float = 9.0, lost: float = 13.1) -> dict[str, Any]:
    return {"task": "w", "pid": 1, "born": 1000.0 + born, "planned": 1000.0 + planned, "lost": 1000.0 + lost}


@pytest.mark.contract("R3")
@pytest.mark.parametrize(
    ("lines", "rows", "found"),
    [
        ([line("died", 10.0, child=1)], [run()], 1),
        ([line("died", 10.0, child=2)], [run()], 0),  # its executor lives
        ([line("died", 14.0, child=1)], [run()], 0),  # it stood still, and died later
        ([line("died", 0.5, child=1), line("died", 10.0, child=1)], [run()], 1),  # the number was another's before
        ([line("died", 4.0, child=1), line("died", 10.0, child=1)], [run(born=5.0)], 1),
    ],
)
def test_a_window_is_taken_back_from_an_executor_that_was_killed_with_it(
    lines: list[dict[str, Any]], rows: list[dict[str, Any]], found: int
) -> None:
    told: Any = Told(lines)
    told.rows = rows

    waits = recovery.windows(told)

    assert [(task, death, round(lost, 3)) for task, death, lost in waits] == [("w", 10.0, 13.1)] * found


BACK = line("back", 11.0, killed=10.0)
ENDED = moved(14.0, "running", "succeeded")


def look(at: float, due: int) -> dict[str, Any]:
    return line("line", at, due=due)


@pytest.mark.contract("R3")
@pytest.mark.parametrize(
    ("found", "lines", "events"),
    [
        ((1, 3.0, 3.0, 4.0), [look(9.9, 1)], [moved(13.0, "ready", "running"), ENDED]),  # it was in line all the time
        ((1, 1.5, 3.0, 4.0), [look(9.9, 0), look(11.1, 0), look(12.5, 2)], [moved(13.0, "ready", "running"), ENDED]),
        ((1, 1.0, 3.0, 4.0), [look(9.9, 0)], [moved(13.0, "ready", "running"), ENDED]),  # claimed between two looks
        ((1, 3.0, 3.0, 4.0), [look(9.9, 0)], [CLAIMED, ENDED]),  # somebody had it in hand when the database died
        # Ends before the database was back, and what a worker did not bring to its end, are none.
        ((1, 3.0, 3.0, 4.0), [look(9.9, 1)], [moved(9.5, "running", "succeeded", task="u"),
                                              moved(11.5, "ready", "cancelled", task="v"), CLAIMED, ENDED]),
        # All workers stand still: nobody could.
        ((1, 2.0, 3.0, 4.0), [look(9.9, 1), *still(1, 10.5, 12.0), *still(2, 10.5, 12.5)], [CLAIMED, ENDED]),
        ((1, 3.0, 3.0, 4.0), [look(9.9, 1), *still(1, 10.5, 12.0)], [CLAIMED, ENDED]),
        # Nobody ever ended anything again.
        ((1, math.inf, math.inf, math.inf), [look(9.9, 1)], []),
        ((1, math.inf, math.inf, math.inf), [look(9.9, 0), look(12.0, 1)], []),
        ((0, 0.0, 0.0, 0.0), [look(9.9, 0), look(12.0, 0)], []),  # there was nothing to do
    ],
)  # fmt: skip
def test_after_an_outage_the_first_end_is_waited_for_from_when_something_was_in_line(
    found: tuple[float, ...], lines: list[dict[str, Any]], events: list[dict[str, Any]]
) -> None:
    told: Any = Told([*AWAKE, BACK, *lines, line("audited", 20.0)], events)

    assert figures._first_ends(told, Able(told.lines, lease=LEASE)) == pytest.approx(found)


@pytest.mark.contract("R3")
def test_of_several_outages_the_slowest_first_end_is_told() -> None:
    told: Any = Told(
        [*AWAKE, look(9.9, 1), BACK, look(15.5, 1), line("back", 17.0, killed=16.0), line("audited", 20.0)],
        [CLAIMED, moved(11.5, "running", "succeeded"), moved(18.5, "running", "succeeded", task="u")],
    )

    assert figures._first_ends(told, Able(told.lines, lease=LEASE)) == pytest.approx((2, 1.5, 1.5, 2.5))


def refused(at: float, count: int = 1) -> dict[str, Any]:
    return line("fenced", at, pid=1, domain="task", move="renew", count=count)


@pytest.mark.contract("R3")
@pytest.mark.parametrize(
    ("count", "lines", "events"),
    [
        (1, [*still(1, 10.0, 13.0), refused(13.1)], [CLAIMED, LAPSED]),
        # A user's cancel, or the repeat of what was committed: nothing was taken from it.
        (0, [*still(1, 10.0, 13.0), refused(13.1)], [CLAIMED, moved(12.25, "running", "cancelled")]),
        # Nothing was refused: it had nothing more to write, or is dead.
        (0, still(1, 10.0, 13.0), [CLAIMED, LAPSED]),
        (0, [line("struck", 10.0, kind="freeze", child=1), line("died", 12.5, child=1)], [CLAIMED, LAPSED]),
        # Refused before, or much later: not as a ghost.
        (0, [*still(1, 10.0, 13.0), refused(9.9), refused(15.1)], [CLAIMED, LAPSED]),
        # It did not stand still for as long as its lease is.
        (0, [*still(1, 10.4, 12.3), refused(12.4)], [CLAIMED, LAPSED]),
        # Of one claim a step and a renewal were refused.
        (1, [*still(1, 10.0, 13.0), refused(13.1), refused(13.2)], [CLAIMED, LAPSED]),
        # A turn, whoever held it last.
        (1, [*still(1, 10.0, 13.0), line("sails", 9.0, turn="u", pid=1), refused(13.1)],
         [{"kind": "agent.state", "subject": "u", "at": 1012.2, "code": claims.LAPSED, "reason": None}]),
    ],
)  # fmt: skip
def test_a_zombie_is_who_lost_a_claim_while_it_stood_still_and_was_refused_afterwards(
    count: int, lines: list[dict[str, Any]], events: list[dict[str, Any]]
) -> None:
    told: Any = Told([start(9.0, 1, 1), *lines], events)

    assert zombies.fenced(told, lease=LEASE) == count


def state(at: float, code: str | None) -> dict[str, Any]:
    return {"kind": "agent.state", "subject": "u", "at": at, "code": code, "reason": None}


def born(at: float, wall: float) -> dict[str, Any]:
    """Tell of a task whose maker had this time on its wall."""
    id = str(UUID(int=(int(wall * 1000) << 80) | (7 << 76) | (2 << 62)))
    return {**moved(at, "", "ready", task=id), "from_state": None}


@pytest.mark.contract("R3")
def test_what_a_life_was_born_with_is_a_case_and_no_fault(tmp_path: Path) -> None:
    (tmp_path / "worker-0.0001.faults").write_text("claim.committed away 3 11\n", encoding="utf-8")
    life = line("born", 1.0, pid=1, role="worker", doorbell="lossy", clock=2.0)
    told: Any = Told([life, line("struck", 2.0, kind="kill", child=1), line("struck", 3.0, kind="forget", who="p.1")])

    assert figures._faults(told, tmp_path) == {"kill": 1, "forget": 1, "claim.committed away": 1}
    assert figures._faults_inside(told, tmp_path) == 2
    met = cases.cases(told, (), zombies=0)
    assert met["a life had a wrong clock"] == met["a life had a doorbell that fails"] == 1


@pytest.mark.contract("R3")
def test_a_case_is_met_by_a_fault_and_not_by_an_ordinary_day() -> None:
    ordinary: Any = Told(
        [
            line("invoke", 1.0, key="a", who="p.1", act="one"), line("ok", 1.2, key="a", who="p.1", act="one", again=True),
            line("hogs", 2.0, held=1, pool=2), line("fenced", 3.0, pid=1, domain="task", move="settle", count=5),
        ],
        [state(1.0, None), state(2.0, None), state(3.0, "handed_back"), state(4.0, "taken_over"), born(5.0, 995.0)],
    )  # fmt: skip
    ordinary.tasks = {"t": {"name": "shaky", "epoch": 2}, "u": {"name": "voyage", "epoch": 4}}
    faulty: Any = Told(
        [
            line("invoke", 1.0, key="a", who="p.1", act="one"), line("ok", 1.2, key="a", who="p.2", act="one", again=True),
            line("hogs", 2.0, held=2, pool=2),
        ],
        [
            state(3.0, claims.LAPSED), state(4.0, "taken_over"), born(5.0, 4605.0),
            {"kind": "ingest_run", "subject": "r", "at": 5.0, "code": "INGEST_LEASE_LOST", "reason": None},
        ],
    )  # fmt: skip
    faulty.tasks = {"t": {"name": "job", "epoch": 2}}
    named = (
        "a task was claimed again that neither fails nor parks",
        "an act was repeated by the next life of its producer",
        "a turn was taken over by another worker",
        "a run of ingestion was lost and its task begun anew",
        "handlers held every connection",
        "an answer was lost after its commit",
        "a task's id was made by a clock that is wrong",
    )

    calm = cases.cases(ordinary, [("command.sent", "away"), ("claim.committed", "kill")], zombies=0)
    met = cases.cases(faulty, [("claim.committed", "away")], zombies=3)

    assert {case: calm[case] for case in named} == dict.fromkeys(named, 0)
    assert {case: met[case] for case in named} == dict.fromkeys(named, 1)
    assert met["a worker that had stood still past its lease was fenced"] == 3


@pytest.mark.contract("R3")
@pytest.mark.parametrize(
    ("count", "effect", "more"),
    [
        (1, 12.5, []),
        (0, 12.0, []),  # in time
        (0, 14.5, still(1, 9.5, 14.0)),  # it stood still
        (1, 12.5, still(2, 9.5, 14.0)),
        (1, 12.5, still(1, 5.0, 8.0)),
    ],
)
def test_a_live_holder_overran_its_lease_if_it_was_awake_and_came_to_its_end_too_late(
    count: int, effect: float, more: list[dict[str, Any]]
) -> None:
    told: Any = Told([start(9.0, 1, 1), line("effect", effect, pid=1, task="t", epoch=1), *more], [CLAIMED, LAPSED])

    met = cases.cases(told, (), zombies=0)

    assert met["a holder that lived and did not stand still overran its lease"] == count


@pytest.mark.contract("R3")
@pytest.mark.parametrize(("ended", "count"), [(11.0, 1), (9.0, 0)])
def test_a_batch_closed_after_a_death_if_the_death_came_before_its_end(ended: float, count: int) -> None:
    told: Any = Told([], [{**moved(ended, "running", "success", task="b"), "kind": "batch"}])
    told.rows = [{"batch": "b", "turn": turn, "status": "success"} for turn in ("u", "v")]

    met = cases.cases(told, (), zombies=0, lost=[recovery.Lost(cases.CHILDREN, "u", 10.0, begun=True)])
    calm = cases.cases(told, (), zombies=0, lost=[recovery.Lost("turns", "u", 1.0, begun=True)])

    case = "a batch closed after the holder of one of its tasks died"
    assert (met[case], calm[case]) == (count, 0)


@pytest.mark.contract("R3")
def test_what_was_stopped_and_what_was_done_again_after_a_death_is_counted() -> None:
    wrecks = {"a": True, "b": True, "c": False}
    told: Any = Told([
        *(line("invoke", 1.0, key=batch, who="p.1", act="wreck", arguments={"batch": batch, "fail_fast": fast})
          for batch, fast in wrecks.items()),
        *(line("ok", 2.0, key=act, who="p.1", act=act, again=False, stopped=stopped)
          for act in ("revoke", "recall") for stopped in (True, False)),
    ])  # fmt: skip
    told.rows = [{"batch": batch, "turn": None, "status": status} for batch, status in
                 (("a", "canceled"), ("a", "canceled"), ("b", "success"), ("c", "canceled"))]  # fmt: skip
    lost = [recovery.Lost(work, "t", 1.0, begun) for work in (*cases.OF_COMMANDS, "tasks") for begun in (True, False)]

    met = cases.cases(told, (), zombies=0, lost=lost)

    assert met["a batch failed fast and its other children were stopped"] == 1
    assert met["a batch was cancelled"] == met["a command was cancelled"] == 1
    assert met["a step or a capability of a command was done again after a death"] == 2


@pytest.mark.contract("R3")
def test_an_outage_after_which_nobody_was_answered_is_the_worst_of_all() -> None:
    told: Any = Told([line("back", 11.0, killed=10.0, pid=0), line("invoke", 12.0, pid=1)])

    assert figures._first_successes(told) == (1, math.inf, math.inf, math.inf)


@pytest.mark.contract("R3")
@pytest.mark.parametrize(
    ("minutes", "short", "counts", "told"),
    [
        (5.0, False, {"a batch was cancelled": 2, "the database was killed": 3}, ["a batch was cancelled (2)"]),
        (5.0, False, {"a batch was cancelled": 3, "the database was killed": 3}, []),
        (60.0, False, {"a batch was cancelled": 3}, []),
        # A shorter run has its share to reach, and something of each.
        (4.0, False, {"a batch was cancelled": 2, "a command was cancelled": 1}, ["a command was cancelled (1)"]),
        (3.0, False, {"a batch was cancelled": 1, "a command was cancelled": 0}, ["a command was cancelled (0)"]),
        (0.2, True, {"a batch was cancelled": 0, "the database was killed": 0}, ["the database was killed (0)"]),
        (0.2, True, {"a batch was cancelled": 0, "the database was killed": 1}, []),
        (0.2, True, {"a worker was killed": 0}, ["a worker was killed (0)"]),
    ],
)
def test_a_run_that_met_a_case_too_seldom_for_its_length_is_told_so(
    minutes: float, short: bool, counts: dict[str, int], told: list[str]
) -> None:
    assert cases.missing(counts, minutes=minutes, short=short) == [f"never, or too seldom: {case}" for case in told]


@pytest.mark.contract("R3")
def test_what_even_a_short_run_must_meet_is_counted() -> None:
    nothing: Any = Told()
    with_all = cases.cases(nothing, (), zombies=0)

    assert set(cases.SURE) <= set(with_all)
    assert len(cases.missing(with_all, minutes=5.0, short=False)) == len(with_all)
