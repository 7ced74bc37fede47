"""R4: a run of all orders that had too few of them fails, and only a whole one does."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.property import conftest, interleave

ROOT = Path(__file__).parents[2]
WALKED = "from tests.property import interleave\n\n\ndef test_{name}() -> None:\n    interleave.ran += {count}\n"
ENOUGH = conftest.LEAST_ORDERS


def code(folder: Path, *arguments: str, counts: tuple[int, int], everything: bool = True) -> int:
    """Run two tests that walk so many orders; return how the run ended."""
    shutil.copy(conftest.__file__, folder / "conftest.py")
    for name, count in zip(("one", "two"), counts, strict=True):
        (folder / f"test_{name}.py").write_text(WALKED.format(name=name, count=count), encoding="utf-8")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "ALL_ORDERS"))}
    ran = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "xdist",
            "-p",
            "no:cacheprovider",
            "--rootdir",
            str(folder),
            *arguments,
        ],
        cwd=folder,
        env={
            **kept,
            "PYTHONPATH": str(ROOT),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            **({"ALL_ORDERS": "1"} if everything else {}),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert "interleavings: " in ran.stdout, ran.stdout + ran.stderr
    return ran.returncode


@pytest.mark.contract("R4")
def test_a_pair_with_more_orders_than_are_tried_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    def left_out(*steps: int) -> tuple[int, int]:
        before = interleave.cut
        chosen = interleave.some(interleave.orders(*steps))
        walked = sum(1 for walk in interleave.walks("a pair", few=3, most=6) if _walked(walk, steps))
        return interleave.cut - before, len(chosen) + walked

    monkeypatch.delenv("ALL_ORDERS", raising=False)
    assert left_out(1, 1) == (0, 2 + 2)
    assert left_out(2, 2) == (1, 6 + 3)
    assert left_out(3, 2) == (2, interleave.MOST_ORDERS + 3)
    monkeypatch.setenv("ALL_ORDERS", "1")
    assert left_out(2, 2) == (0, 6 + 6)
    assert left_out(3, 2) == (1, 10 + 6)


@pytest.mark.contract("R4")
def test_each_order_of_three_is_walked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_ORDERS", "1")
    paths = [walk.path for walk in interleave.walks("three", most=100) if _walked(walk, (2, 1, 1))]

    assert len(paths) == len({*paths}) == 12


def _walked(walk: interleave.Walks, steps: tuple[int, ...]) -> bool:
    """Walk one order of so many steps of each, of whom none is ever blocked."""
    left = list(steps)
    while able := [place for place, more in enumerate(left) if more]:
        left[walk.choose(able)] -= 1
    walk.end()
    return True


@pytest.mark.contract("R4")
def test_a_whole_run_of_all_orders_with_too_few_of_them_fails(tmp_path: Path) -> None:
    assert code(tmp_path, "-n", "1", counts=(1, ENOUGH - 2)) == 1
    assert code(tmp_path, counts=(1, ENOUGH - 1)) == 0


def test_a_run_of_some_tests_or_of_some_orders_may_have_few(tmp_path: Path) -> None:
    assert code(tmp_path, counts=(1, 1), everything=False) == 0
    assert code(tmp_path, "-k", "one or two", counts=(1, 1)) == 0
    assert code(tmp_path, "test_one.py", counts=(1, 1)) == 0
