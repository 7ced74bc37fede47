"""R3: when a storm has passed, everything must come to rest within a bound."""

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from chaos import storm
from chaos.history import History


class Nobody:
    """Whoever may be asked to do something, and has nothing to do."""

    unexpected: tuple[str, ...] = ()

    def __getattr__(self, _name: str) -> Any:
        return lambda *_given: ()


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
