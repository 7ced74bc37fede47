"""R3: what a run says of itself: why tasks were started again, and what a soak has found."""

from pathlib import Path
from typing import Any

import pytest

from chaos import report
from chaos.checker import able, again, figures
from chaos.checker.able import Able

LEASE = 2.0


def start(at: float, pid: int, epoch: int) -> dict[str, Any]:
    return {"what": "start", "at": at, "pid": pid, "task": "t", "epoch": epoch}


def line(what: str, at: float, **more: Any) -> dict[str, Any]:
    return {"what": what, "at": at, **more}


STRUCK = [line("struck", 10.5, kind="freeze", child=1), line("thawed", 14.0, child=1)]


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
        (again.AWAY, [line("back", 11.0, killed=10.4)], 10.0),
        (again.NOTHING, [], 10.0),
    ],
)
def test_a_second_start_is_put_down_to_the_fault_that_forced_it(
    cause: str, history: list[dict[str, Any]], first: float
) -> None:
    past = again.Past(history, (), lease=LEASE)

    found = again.causes([start(first, 1, 1), start(13.0, 2, 2)], past)

    assert {each: count for each, count in found.items() if count} == {cause: 1}


def test_who_lost_renewals_lost_leases() -> None:
    found = again.causes([start(10.0, 1, 1), start(13.0, 2, 2)], again.Past([], [1], lease=LEASE))

    assert found[again.RENEWALS] == 1


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

    found = Able(lines).waited("t", 10.0, 15.0, lease=LEASE, roles=roles)

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
    told: Any = Told()
    told.lines = [line("back", 11.0, killed=10.0, pid=0), *asks]

    assert figures._first_successes(told) == (1, worst, 4.0, 5.0)


class Told:
    """What a checker looks at, as far as recoveries are concerned."""

    def __init__(self, *moves: float) -> None:
        self.events = [{"kind": "task", "subject": "t", "from_state": "running", "at": 1000.0 + at} for at in moves]
        self.lines = [
            line("clock", 0.0, wall=1000.0), start(9.0, 1, 1), line("died", 10.0, child=1), start(14.0, 2, 2)
        ]  # fmt: skip

    def of(self, *whats: str) -> list[dict[str, Any]]:
        return [each for each in self.lines if each["what"] in whats]


@pytest.mark.contract("R3")
@pytest.mark.parametrize(
    ("moves", "taken_back", "recovered"),
    [
        ([12.25], [("t", 10.0, 12.25)], [("t", 10.0, 14.0)]),
        ([9.5], [], []),  # its holder had parked it, or handed it back, before it died
    ],
)
def test_only_what_a_worker_had_in_hand_when_it_was_killed_is_a_recovery(
    moves: list[float], taken_back: list[figures.Wait], recovered: list[figures.Wait]
) -> None:
    told: Any = Told(*moves)

    assert (figures._taken_back(told), figures._recoveries(told)) == (taken_back, recovered)


GROWTH = {"who": "worker-0.1", "middle": 60 << 20, "rise": 1 << 20, "an_hour": 0, "least": 16 << 20, "judged": 5}
SOAK: dict[str, Any] = {
    "seed": 7, "lease": 2.0, "minutes": 60.0, "pooler": False, "wall_seconds": 3700, "python": "3.11", "cores": 2,
    "load": [1.0, 1.0, 1.0], "lost": 0, "second_ends": 0, "tasks": 9, "turns": 1, "batches": 1, "commands": 1, "records": 1,
    "acknowledged": 9, "quiet_seconds": 3.0, "overdue": 0, "looks": 100, "soak": {"memory": GROWTH},
}  # fmt: skip


def test_a_soak_has_a_place_of_its_own_on_the_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "<!-- chaos: begin -->\nstorm\n<!-- chaos: end -->\n<!-- soak: begin -->\n<!-- soak: end -->\n",
        encoding="utf-8",
    )

    report.write(page, SOAK)

    text = page.read_text(encoding="utf-8")
    assert text.startswith(
        "<!-- chaos: begin -->\nstorm\n<!-- chaos: end -->\n<!-- soak: begin -->\nSeed 7, 60 minutes"
    )
    assert "| memory, what grew most of 5 | ≤ 16.0 MiB | 1.0 MiB from the first to the last third (worker-0.1" in text
    page.write_text("nothing", encoding="utf-8")
    with pytest.raises(ValueError, match="no place for this"):
        report.write(page, SOAK)
