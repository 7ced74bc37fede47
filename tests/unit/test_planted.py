"""R5: every planted bug fits the code as it is and names tests that exist; `make planted` shows that they fail."""

import ast
from pathlib import Path

import pytest

from tools import planted

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.contract("R5")
def test_every_planted_bug_fits_and_names_its_tests(tmp_path: Path) -> None:
    bugs = planted.bugs()
    planted.copy(tmp_path)

    wrong = {bug.name: said for bug in bugs if (said := planted.plant(bug, tmp_path, try_only=True)) is not None}

    assert wrong == {}
    assert len(bugs) >= 20
    for bug in bugs:
        for test in bug.tests:
            file, _, name = test.partition("::")
            tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
            named = {each.name for each in tree.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)}
            assert name.partition("[")[0] in named, f"{bug.name} names {test}"


# A tree of its own: what is right, what is planted, and tests of which one is red anyway and one is left out.
RIGHT = "def two() -> int:\n    return 2\n"
TESTS = """
import pytest
import thing


def test_two():
    assert thing.two() == 2


def test_that_is_red_anyway():
    assert thing.two() == 4


@pytest.mark.parametrize("one", [1, 5])
def test_with_a_case_that_is_red_anyway(one):
    assert thing.two() == one + 1


@pytest.mark.skip
def test_that_is_left_out():
    assert thing.two() == 2
"""
PATCH = """Two is three.

  tests/test_thing.py::{test}

--- a/src/thing.py
+++ b/src/thing.py
@@ -1,2 +1,2 @@
 def two() -> int:
-    return 2
+    return 3
"""


@pytest.mark.contract("R5")
def test_a_bug_whose_test_is_red_without_it_is_not_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    named = ("test_two", "test_that_is_red_anyway", "test_with_a_case_that_is_red_anyway", "test_that_is_left_out")
    files = {"src/thing.py": RIGHT, "tests/test_thing.py": TESTS}
    files |= {f"tests/planted/{test}.patch": PATCH.format(test=test) for test in named}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.setattr(planted, "ROOT", tmp_path)
    monkeypatch.setattr(planted, "PATCHES", tmp_path / "tests" / "planted")

    ended = planted.main(["--hands=1"])

    said = capsys.readouterr().out
    assert ended == 1
    assert [line.split(":")[0] for line in said.splitlines() if line.startswith("caught")] == ["caught  test_two"]
    assert "1 of 4 planted bugs are caught" in said
    assert "test_that_is_red_anyway failed without it" in said
    assert "test_with_a_case_that_is_red_anyway failed, passed without it" in said
    assert "test_that_is_left_out was skipped without it" in said
