"""R3: what a run says of itself to people, and when that fails it."""

import io
import tempfile
from pathlib import Path
from typing import Any

import pytest

from chaos import __main__ as program
from chaos import aims, checker, report, terms
from chaos.checker import again, recovery

WILD: dict[str, Any] = {
    "seed": 7, "pooler": False, "wall_seconds": 309, "python": "3.11", "cores": 2, "load": [1.0, 1.0, 1.0], "turns": 1,
    "batches": 1, "commands": 1, "records": 1, "quiet_seconds": 3.0, "cases": {},
    "lease": 2.0, "minutes": 5.0, "lost": 0, "acknowledged": 9, "second_ends": 0, "tasks": 9, "overdue": 0, "looks": 9,
    "starts_per_task": 1.05, "started_again": {again.NOTHING: 0}, "unforced": [], "started": 9, "faults": 1000,
    "faults_inside": 400, "zombies_fenced": 200,
    "taken_back": 9, "taken_back_p50": 2.0, "taken_back_p99": 3.0, "taken_back_worst": 3.0,
    "taken_back_by_the_clock": (9, 2.0, 3.0, 3.0), "recoveries": 9, "recovery_p50": 2.0, "recovery_p99": 3.0,
    "recovery_worst": 3.0, "recovery_by_the_clock": (9, 2.0, 3.0, 3.0), "recovery_fell": 1,
    "recovery_kinds": {"tasks": (8, 2.0, 3.0, 3.0), "turns": (1, 5.0, 5.0, 5.0), "tools": (0, 0.0, 0.0, 0.0)},
    "recovery_work": {"tasks": 8, "turns": 1}, "recovery_unbegun": 3, "recovery_left_out": {recovery.ARRIVED: 2},
    "windows": (9, 3.0, 4.0, 5.0), "windows_by_the_clock": (9, 3.0, 4.0, 5.0),
    "outages": 6, "first_success_worst": 5.0, "first_success_since_back": 6.0, "first_success_since_killed": 7.0,
    "first_ends": 6, "first_end_worst": 5.0, "first_end_since_back": 6.0, "first_end_since_killed": 7.0,
    "idle": 0, "idle_could": 9, "passed_over": 0, "waits": 9, "alone": {"worker": 2, "dog": 1}, "alone_short": 0,
}  # fmt: skip


@pytest.mark.contract("R3")
@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({}, None),
        ({"acknowledged": 0}, "lost"),
        ({"tasks": 0}, "second ends"),
        ({"overdue": 1}, "overdue"),
        ({"looks": 0}, "overdue"),
        ({"starts_per_task": 1.051}, "starts per task"),
        ({"started_again": {again.NOTHING: 1}}, "starts that no fault forced"),
        ({"idle": 1}, "workers that lived on and began nothing"),
        ({"idle_could": 0}, "workers that lived on and began nothing"),
        ({"alone_short": 1}, "survivors that were left alone"),
        ({"alone": {"worker": 2, "dog": 0}}, "survivors that were left alone"),
        ({"alone": {"worker": 1, "dog": 1}}, "survivors that were left alone"),
        ({"passed_over": 1}, "passed over in line"),
        ({"waits": 0}, "passed over in line"),
        ({"faults": 999}, "faults"),
        ({"zombies_fenced": 199}, "zombies fenced"),
        ({"taken_back_p99": 3.01}, "work of a killed worker taken back"),
        ({"taken_back": 0, "taken_back_p99": 0.0}, "work of a killed worker taken back"),
        ({"recovery_p99": 3.01}, "and begun anew, p99"),
        ({"recoveries": 0, "recovery_p99": 0.0}, "and begun anew, p99"),
        ({"recovery_kinds": {"tasks": (900, 2.0, 2.0, 2.0), "turns": (1, 5.01, 5.01, 5.01)}}, "5.01 s (turns, of 1)"),
        (
            {"recovery_kinds": {"tasks": (0, 0.0, 0.0, 0.0)}},
            "worst of any kind of work (≤ 5 s): nothing was begun anew",
        ),
        # Of nine the p99 is the worst, and the worst has two leases and a second.
        ({"windows": (9, 3.0, 7.0, 7.0)}, None),
        ({"windows": (9, 3.0, 7.01, 7.01)}, "windows of a killed executor taken back, worst"),
        ({"windows": (99, 3.0, 4.01, 4.01)}, None),
        ({"windows": (100, 3.0, 4.0, 7.0)}, None),
        ({"windows": (100, 3.0, 4.01, 7.0)}, "windows of a killed executor taken back, p99"),
        ({"windows": (0, 0.0, 0.0, 0.0)}, "windows of a killed executor"),
        ({"first_success_worst": 5.01}, "first success"),
        ({"outages": 0, "first_success_worst": 0.0}, "first success"),
        ({"first_end_worst": 5.01}, "first task ended by a worker"),
        ({"first_end_worst": float("inf")}, "first task ended by a worker"),
        ({"first_ends": 0, "first_end_worst": 0.0}, "first task ended by a worker"),
    ],
)
def test_a_figure_that_is_missed_or_was_never_taken_fails_the_run(wrong: dict[str, Any], said: str | None) -> None:
    short = aims.short({**WILD, **wrong})

    assert [said is not None and said in each for each in short] == ([] if said is None else [True])


@pytest.mark.contract("R3")
def test_what_is_told_as_lost_or_ended_twice_is_what_checks_found_that_there_are() -> None:
    """A count of a check that has another name now would be none for ever."""
    assert {*report.LOST, *report.TWICE} <= set(checker.names())


@pytest.mark.contract("R3")
def test_where_nothing_was_started_nothing_is_known_of_starts() -> None:
    short = aims.short({**WILD, "started": 0, "starts_per_task": 0.0})

    assert ["starts" in each for each in short] == [True, True]


@pytest.mark.contract("R3")
@pytest.mark.parametrize(("minutes", "code"), [("5", 1), ("2.5", 1), ("2.4", 0)])
def test_a_run_that_is_long_enough_fails_by_its_exit_code_when_a_figure_is_missed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str], minutes: str, code: int
) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- chaos: begin -->\n<!-- chaos: end -->\n", encoding="utf-8")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(program, "_run", lambda _asked, _place: ({**WILD, "starts_per_task": 1.051}, []))

    assert program.main(["--minutes", minutes, "--page", str(page)]) == code

    said = capsys.readouterr().out
    assert ("WRONG  short of its aim: starts per task" in said) == (code == 1)
    assert "(short of its aim)" in page.read_text(encoding="utf-8")  # nothing is wrong: what is short is told there too


@pytest.mark.contract("R3")
def test_a_run_tells_the_terms_that_its_recoveries_hang_on() -> None:
    screen = io.StringIO()

    report.show({**WILD, "lease": 4.0}, [], file=screen)

    said = screen.getvalue()
    assert "with leases of 4 s (ingestion 6 s) that are swept every 0.2 s, workers that poll every 0.2 s" in said
    assert "a watchdog that looks every 1.2 s" in said
    assert "3 s after the last death, where 120 s are the most" in said
    assert "1,000 (600 from outside, 400 inside of the processes)" in said
    assert "tasks 8, turns 1" in said
    assert "5.00 s (turns, of 1)" in said
    assert "tasks 3.00 s of 8, turns 5.00 s of 1, tools never" in said
    assert terms.leased(4.0)["FERRYMAN_WORKER__WATCHDOG_INTERVAL_SECONDS"] == "1.2"


GROWTH = {"who": "worker-0.1", "middle": 60 << 20, "an_hour": 1 << 20, "bar": 8 << 20, "judged": 5}
SOAK: dict[str, Any] = {
    "seed": 7, "lease": 2.0, "minutes": 60.0, "pooler": False, "wall_seconds": 3700, "python": "3.11", "cores": 2,
    "load": [1.0, 1.0, 1.0], "lost": 0, "second_ends": 0, "tasks": 9, "turns": 1, "batches": 1, "commands": 1, "records": 1,
    "acknowledged": 9, "quiet_seconds": 3.0, "overdue": 0, "looks": 100, "soak": {"memory": GROWTH},
    "levels": {}, "wide": {},
    "spared": {"seconds": 2.0, "begun": 900, "beside": 0.9},
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
    assert (
        "| memory, what grew most of 5 | ≤ 8.0 MiB an hour | 1.0 MiB an hour (worker-0.1, in the middle 60.0 MiB) |"
        in text
    )
    assert aims.short({**SOAK, "soak": {"memory": {**GROWTH, "an_hour": (8 << 20) + 1}}})
    assert not aims.short(SOAK)
    assert "| 2.0 s, and began 900 in all |" in text
    for paused in ({"seconds": 60.1, "begun": 900}, {"seconds": 0.0, "begun": 0}):
        short = aims.short({**SOAK, "spared": {**paused, "beside": 0.25}})
        assert ["the worker that is spared" in each for each in short] == [True]
    slow = aims.short({**SOAK, "spared": {"seconds": 2.0, "begun": 900, "beside": 0.24}})
    assert ["beside its peers (≥ 25%): 24%" in each for each in slow] == [True]
    page.write_text("nothing", encoding="utf-8")
    with pytest.raises(ValueError, match="no place for this"):
        report.write(page, SOAK)
