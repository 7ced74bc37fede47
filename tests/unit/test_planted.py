"""R5: every planted bug fits the code as it is and names tests that exist; `make planted` shows that they fail."""

import ast
from pathlib import Path

import pytest

from chaos import checker
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


# Stands where chaos stands: it finds what is wrong with two, and cries without any bug where it is told to.
CHAOS = """
import sys
import thing

print("WRONG  something_else: is always first") if thing.two() != 2 else print("Nothing was lost.")
print("WRONG  two_is_two: two is", thing.two()) if thing.two() != 2 else None
sys.exit(thing.two() != 2 or {cries})
"""
UNFOUND = PATCH.replace("return 3", "return 1 + 1")


@pytest.mark.contract("R5")
@pytest.mark.parametrize(
    ("about", "seldom", "cries", "code"),
    [
        ("two_is_two", {"unfound"}, False, 0),
        ("two_is_two", {"found", "unfound"}, False, 0),
        ("two_is_two", set(), False, 1),
        ("two_is_two", {"unfound"}, True, 1),
        ("two", {"unfound"}, False, 1),
    ],
    ids=["found again", "found for once", "missed", "cries without any", "red for something else"],
)
def test_chaos_must_find_what_it_has_found_before_and_cry_at_nothing_else(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    about: str,
    seldom: set[str],
    cries: bool,
    code: int,
) -> None:
    files = {"src/thing.py": RIGHT, "chaos/__init__.py": "", "chaos/__main__.py": CHAOS.format(cries=cries)}
    files |= {
        "tests/planted/found.patch": PATCH,
        "tests/planted/unfound.patch": UNFOUND,
        "tests/planted/other.patch": PATCH,
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text.replace("{test}", "test_two"), encoding="utf-8")
    monkeypatch.setattr(planted, "ROOT", tmp_path)
    monkeypatch.setattr(planted, "PATCHES", tmp_path / "tests" / "planted")
    monkeypatch.setattr(planted, "CHAOS", {"found": (about,), "unfound": (about,)})
    monkeypatch.setattr(planted, "SELDOM", seldom)

    assert planted.main(["--chaos"]) == code

    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("without any bug: " + ("ended with 1" if cries else "nothing is wrong"))
    if about == "two_is_two":
        assert said[1].startswith("found  found: Two is three.")
        assert said[1].endswith("two_is_two: two is 3")
    else:
        assert said[1].startswith("MISSED  found: Two is three.")
        assert said[1].endswith("none of two spoke: something_else: is always first")
    assert said[2].startswith("not found" if "unfound" in seldom else "MISSED")
    assert len(said) == 3


@pytest.mark.contract("R5")
def test_what_chaos_is_tried_with_is_planted_and_looked_for_by_checks_that_there_are() -> None:
    assert set(planted.CHAOS) <= {bug.name for bug in planted.bugs()}
    assert set(planted.CHAOS) >= planted.SELDOM
    assert all(planted.CHAOS.values())
    assert {check for checks in planted.CHAOS.values() for check in checks} <= set(checker.names())
