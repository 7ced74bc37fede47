"""R3: a worker that lives through a fault and claims nothing any more is told, and one that has nothing to do is not."""

from typing import Any

import pytest

from chaos.checker.survivors import Fleet

LEASE = 2.0
Lines = list[dict[str, Any]]


def line(what: str, at: float, **more: Any) -> dict[str, Any]:
    return {"what": what, "at": at, "who": "storm", **more}


def born(pid: int, at: float = 0.0, role: str = "worker") -> Lines:
    who = f"{role}-{pid}.0001"
    return [{**line("born", at, pid=pid, role=role), "who": who}, line("working", at, pid=pid)]


def starts(pid: int, since: float, until: float, every: float = 0.1, what: str = "start") -> Lines:
    count = round((until - since) / every)
    return [line(what, since + n * every, pid=pid, task=f"{pid}-{n}", epoch=1) for n in range(count)]


def looks(due: int, since: float = 0.0, until: float = 30.0) -> Lines:
    return [line("line", since + n / 4, due=due) for n in range(round((until - since) * 4))]


def still(pid: int, since: float, until: float, kind: str = "freeze") -> Lines:
    return [line("struck", since, kind=kind, child=pid), line("thawed", until, child=pid)]


def fleet(*given: Lines) -> Fleet:
    lines = sorted([each for lines in given for each in lines], key=lambda each: float(each["at"]))
    return Fleet([*lines, line("audited", 30.0)], lease=LEASE)


# Two that work all the time, each for as long as is asked about; of a third something is to be seen.
OTHERS = [*born(1), *born(2), *starts(1, 0.0, 30.0), *starts(2, 0.05, 30.0)]
DEATH = [line("died", 29.0, child=3)]


@pytest.mark.contract("R3")
@pytest.mark.parametrize(
    ("told", "given"),
    [
        # It begins nothing any more after a cut, a freeze, an outage, or from its birth on.
        (True, [*starts(3, 0.0, 10.0), line("struck", 10.0, kind="cut", ended=2), *DEATH]),
        (True, [*starts(3, 0.0, 10.0), *still(3, 10.0, 14.0), *DEATH]),
        (True, [*starts(3, 0.0, 10.0), line("back", 12.0, killed=10.0), *DEATH]),
        (True, [*starts(3, 0.0, 10.0), line("struck", 10.0, kind="crash", child=99), *DEATH]),
        (True, DEATH),
        # Also if it stands still now and then: of what is left it was awake for long enough.
        (True, [*starts(3, 0.0, 5.0), *still(3, 8.0, 10.0, "pause"), *still(3, 12.0, 16.0), *DEATH]),
        # It works, of whatever kind that is.
        (False, [*starts(3, 0.0, 29.0), *DEATH]),
        *((False, [*starts(3, 0.0, 29.0, every=3.0, what=what), *DEATH]) for what in ("leg", "maps", "ties")),
        (True, [*starts(3, 0.0, 29.0, every=5.0, what="stroke"), *DEATH]),  # turns are another line
        # It had a lease for what it had in hand, and then too little time until it was killed, or died by itself.
        (False, [*starts(3, 0.0, 10.0), line("struck", 13.5, kind="kill", child=3), line("died", 29.0, child=3)]),
        (False, [*starts(3, 0.0, 10.0), line("died", 13.5, child=3)]),
        (True, [*starts(3, 0.0, 10.0), line("died", 15.5, child=3)]),
        # It stood still for most of it.
        (False, [*starts(3, 0.0, 10.0), *still(3, 11.0, 27.0), *DEATH]),
        (False, [*starts(3, 0.0, 10.0), *still(3, 12.5, 27.0), line("died", 28.0, child=3)]),
        (False, [*starts(3, 0.0, 10.0), line("struck", 11.0, kind="freeze", child=3), *DEATH]),
        # All were thrown out again and again.
        (False, [*starts(3, 0.0, 10.0), *(line("struck", at, kind="cut", ended=60) for at in range(13, 29, 3)), *DEATH]),
        (False, [*starts(3, 0.0, 10.0), line("back", 28.0, killed=10.5), *DEATH]),
    ],
)  # fmt: skip
def test_who_is_awake_and_begins_nothing_while_tasks_are_in_line_is_told(told: bool, given: Lines) -> None:
    found = fleet(OTHERS, born(3), given, looks(60)).judge()

    assert ["worker-3.0001 was awake" in each for each in found.idle] == [True] * told
    assert found.could >= 2


@pytest.mark.contract("R3")
@pytest.mark.parametrize(
    "given",
    [
        [*OTHERS, *born(3), *looks(29)],  # others may take that at once
        [*OTHERS, *born(3), *looks(60), line("struck", 0.0, kind="hold", child=9, locked=20),
         line("struck", 0.0, kind="hold", child=8, locked=11)],
        [*OTHERS, *born(3), *looks(60, 10.0, 11.75)],  # for a moment
        [*born(1), *starts(1, 0.0, 30.0, every=0.5), *born(3), *looks(60)],  # nobody gets on
        [*OTHERS, *born(3, role="dog"), *looks(60)],  # it only watches
        [
            *OTHERS,
            {**line("born", 0.0, pid=3, role="worker"), "who": "worker-3.0001"},
            *looks(60),
        ],  # it was never so far
    ],
)  # fmt: skip
def test_who_has_nothing_to_do_or_cannot_is_not_told(given: Lines) -> None:
    assert fleet(given).judge().idle == []


@pytest.mark.contract("R3")
def test_a_run_in_which_no_line_was_long_has_judged_nobody() -> None:
    assert fleet(OTHERS, looks(10)).judge() == ([], 0)


@pytest.mark.contract("R3")
@pytest.mark.parametrize(("seconds", "told"), [(61.0, True), (59.0, False)])
def test_where_lines_are_short_a_minute_in_which_others_began_a_thousand_is_enough(seconds: float, told: bool) -> None:
    busy = [*born(1), *starts(1, 0.0, 90.0, every=0.05)]
    lines = [*busy, *born(3), *starts(3, 0.0, 10.0), *starts(3, 10.0 + seconds, 90.0), *looks(0, until=90.0)]

    found = Fleet(sorted(lines, key=lambda each: float(each["at"])), lease=LEASE).judge()

    assert len(found.idle) == told


@pytest.mark.contract("R3")
def test_the_longest_pause_of_a_worker_is_that_in_which_it_was_awake_and_the_database_up() -> None:
    given = [*starts(3, 0.0, 5.0), *still(3, 6.0, 8.0), *starts(3, 9.0, 15.0), *starts(3, 25.0, 30.0)]
    away = [line("back", 24.0, killed=18.0)]
    barred = [line("struck", 18.2, kind="bar", child=9, since=18.0), line("released", 24.0, child=9)]

    for lines, longest in (([*given, *away], 3.1), ([*given, *barred], 3.1), (given, 10.1)):
        found = fleet(OTHERS, born(3), lines).pause("worker-3")
        assert (round(found.seconds, 3), found.begun) == (longest, 160)
    assert fleet(OTHERS).pause("worker-3") == (0.0, 0)


@pytest.mark.contract("R3")
def test_what_one_begins_is_put_beside_what_its_peers_begin_in_a_second_awake() -> None:
    slow = starts(3, 0.0, 30.0, every=0.5)

    assert fleet(OTHERS, born(3), slow).beside("worker-3") == pytest.approx(0.2, rel=0.01)
    # It stood still for half of the time, and began as many in the other half as its peers do.
    asleep = [*starts(3, 0.0, 15.0), *still(3, 15.0, 30.0)]
    assert fleet(OTHERS, born(3), asleep).beside("worker-3") == pytest.approx(1.0, rel=0.01)
    assert fleet(OTHERS).beside("worker-3") == 0.0
    assert fleet(born(3), slow).beside("worker-3") == 1.0


@pytest.mark.contract("R3")
def test_a_worker_has_as_much_time_as_its_handlers_may_take() -> None:
    given = [*OTHERS, *born(3), *starts(3, 0.0, 10.0), *DEATH, *looks(60), line("audited", 30.0)]
    lines = sorted(given, key=lambda each: float(each["at"]))

    assert len(Fleet(lines, lease=LEASE).judge().idle) == 1
    assert Fleet(lines, lease=18.0).judge().idle == []


@pytest.mark.contract("R3")
def test_what_a_stranger_has_let_go_stands_in_line_again() -> None:
    held = [line("struck", 0.0, kind="hold", child=9, locked=40), line("released", 10.0, child=9)]

    assert len(fleet(OTHERS, born(3), held, looks(60)).judge().idle) == 1
