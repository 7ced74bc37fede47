"""R3: when a storm has passed, everything must come to rest within a bound."""

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from chaos import storm
from chaos.fleet import Slot
from chaos.history import History, read
from chaos.lookout import Seen
from chaos.plan import Fault


class Nobody:
    """Whoever may be asked to do something, and has nothing to do."""

    unexpected: tuple[str, ...] = ()

    def __getattr__(self, _name: str) -> Any:
        return lambda *_given: ()


class Patient(Nobody):
    """Looks for what is late, after so many steps."""

    def __init__(self, after: int) -> None:
        self._after = after
        self.seen = Seen()

    def step(self, _now: float) -> None:
        self._after -= 1
        self.seen.looks += self._after <= 0


class Frozen(Nobody):
    """A fleet of one, who stands still."""

    def __init__(self) -> None:
        self.slots = [Slot("worker-0", "worker", frozen_until=float("inf"))]

    def thaw(self, slot: Slot) -> None:
        slot.frozen_until = None


@pytest.mark.contract("R3")
def test_those_who_have_survived_are_watched_awake_until_somebody_has_looked_for_what_is_late(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(storm, "SPARE_SECONDS", 0.0)
    nobody: Any = Nobody()
    fleet: Any = Frozen()
    eyes: Any = Patient(5)
    run = storm.Storm(nobody, nobody, fleet, History(tmp_path / "storm.history"), eyes, seed=7, say=lambda _words: None)

    run.linger(0.0)
    assert (eyes.seen.looks, fleet.slots[0].frozen_until) == (1, None)

    began = time.monotonic()
    run.linger(0.2)
    assert time.monotonic() - began >= 0.2

    monkeypatch.setattr(storm, "LOOK_PATIENCE_SECONDS", 0.2)
    eyes.seen, eyes._after = Seen(), 1000
    run.linger(0.0)
    assert eyes.seen.looks == 0


class Crew(Frozen):
    """A fleet of one worker who stands still, or comes up after so many steps."""

    def __init__(self, *, comes_up: int = 0) -> None:
        super().__init__()
        self.slots[0].pid, self.killed = 99, 0
        self._steps = comes_up

    def tend(self, _now: float) -> None:
        self._steps -= 1

    def prey(self, *wanted: str) -> list[Slot]:
        return [slot for slot in self.slots if slot.role in wanted and slot.frozen_until is None]

    def works(self, _slot: Slot) -> bool:
        return self._steps <= 0

    def kill(self, _slot: Slot) -> None:
        self.killed += 1


def kill(at: float) -> Fault:
    return Fault(at, "kill", 0.9, 0.0)


def storming(fleet: Any, folder: Path) -> storm.Storm:
    nobody: Any = Nobody()
    eyes: Any = Patient(0)
    told = History(folder / "storm.history")
    return storm.Storm(nobody, nobody, fleet, told, eyes, seed=7, say=lambda _words: None)


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storm, "SPARE_SECONDS", 0.0)
    monkeypatch.setattr(storm, "OWED_SECONDS", 0.0)
    monkeypatch.setattr(storm, "PROGRESS_SECONDS", 1000.0)
    monkeypatch.setattr(Patient, "progress", lambda _self: "", raising=False)


@pytest.mark.contract("R3")
@pytest.mark.usefixtures("hasty")
def test_a_kill_that_met_nobody_is_struck_as_soon_as_somebody_works(tmp_path: Path) -> None:
    fleet = Crew(comes_up=5)
    fleet.slots[0].frozen_until = None
    run = storming(fleet, tmp_path)

    run.rage([kill(0.0)], 0.3)

    assert (fleet.killed, [kind for _, kind in run.outcome.struck]) == (1, ["kill"])


@pytest.mark.contract("R3")
@pytest.mark.usefixtures("hasty")
def test_a_kill_that_met_nobody_all_the_time_is_struck_after_the_thaw(tmp_path: Path) -> None:
    fleet = Crew()
    run = storming(fleet, tmp_path)

    run.rage([kill(0.0), kill(0.05)], 0.1)
    assert fleet.killed == 0

    run.linger(0.0)
    assert (fleet.killed, [kind for _, kind in run.outcome.struck]) == (1, ["kill"])


@pytest.mark.contract("R3")
@pytest.mark.usefixtures("hasty")
def test_a_kill_is_owed_only_while_none_has_met_anybody_and_not_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = Crew()
    fleet.slots[0].frozen_until = None
    run = storming(fleet, tmp_path)
    run._strike(kill(0.0))
    fleet.slots[0].frozen_until = float("inf")
    run._strike(kill(0.1))
    run.linger(0.0)
    assert fleet.killed == 1

    monkeypatch.setattr(storm, "BIRTH_SECONDS", 0.1)
    absent = Crew(comes_up=10_000)
    run = storming(absent, tmp_path)
    run._strike(kill(0.0))
    run.linger(0.0)
    assert (absent.killed, run.outcome.struck) == (0, [])


class Held(Nobody):
    """A database in which strangers hold rows, until it is killed or they are let go."""

    def __init__(self) -> None:
        self.strangers = [8, 9]

    def kill(self) -> int:
        return 99

    def crash(self, _dice: object) -> int:
        return 98

    def release(self, now: float) -> list[int]:
        gone, self.strangers = (self.strangers, []) if now == float("inf") else ([], self.strangers)
        return gone


class Judge(Nobody):
    """Is told whose rows are judged again."""

    def __init__(self) -> None:
        self.again: list[int] = []

    def judge_rows(self, stranger: int) -> None:
        self.again.append(stranger)


@pytest.mark.contract("R3")
@pytest.mark.parametrize("kind", ["outage", "crash"])
def test_strangers_hold_nothing_when_the_database_dies_and_their_rows_are_judged_again(
    tmp_path: Path, kind: str
) -> None:
    nobody: Any = Nobody()
    sea: Any = Held()
    eyes: Any = Judge()
    told = History(tmp_path / "storm.history")
    run = storm.Storm(sea, nobody, nobody, told, eyes, seed=7, say=lambda _words: None)

    run._strike(Fault(0.0, kind, 0.5, 0.0))

    lines = list(read(told.path))
    assert [line["child"] for line in lines if line["what"] == "released"] == eyes.again == [8, 9]
    assert lines[-1]["what"] == "struck"
    assert all(line["at"] <= lines[-1]["at"] for line in lines)


class Eyes(Nobody):
    """Sees fewer at each look."""

    def __init__(self, counts: Iterator[int]) -> None:
        self._counts = counts

    def live(self) -> Mapping[str, int]:
        count = next(self._counts)
        return {"task": count} if count else {}

    def circumstances(self) -> dict[str, Any]:
        return {}


@pytest.mark.contract("R3")
@pytest.mark.parametrize(
    ("counts", "wrong"),
    [
        ([3, 2, 0], []),
        ([3] * 1000, ["there lives {'task': 3}"]),
        # Something ends all the time, and it is not over all the same.
        (list(range(1000, 0, -1)), ["there lives {'task': "]),
    ],
)
def test_what_has_not_come_to_rest_in_time_fails_the_run_however_slowly_it_goes_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, counts: list[int], wrong: list[str]
) -> None:
    monkeypatch.setattr(storm, "QUIET_SECONDS", 0.5)
    nobody: Any = Nobody()
    eyes: Any = Eyes(iter(counts))
    told = History(tmp_path / "storm.history")
    run = storm.Storm(nobody, nobody, nobody, told, eyes, seed=7, say=lambda _words: None)

    run._await_quiet(time.monotonic())

    assert [each in said for each, said in zip(wrong, run.outcome.wrong, strict=True)] == [True] * len(wrong)
    assert run.outcome.quiet_seconds < 5
