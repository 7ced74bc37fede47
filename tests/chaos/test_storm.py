"""R3: when a storm has passed, everything must come to rest within a bound."""

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from chaos import storm
from chaos.fleet import Slot
from chaos.history import History
from chaos.lookout import Seen


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
