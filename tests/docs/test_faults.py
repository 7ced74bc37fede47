"""The catalogue of faults names tests: each of them is there, and so is each planted bug."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "faults.md"
NAMED = re.compile(r"`([a-z_/]+\.py)::(test_[a-z0-9_]+)`")
PLANTED = re.compile(r"planted as `([a-z-]+)`")


def missing(text: str) -> list[str]:
    """Return the tests and planted bugs that a page names and nobody has."""
    found = []
    for file, test in NAMED.findall(text):
        path = ROOT / "tests" / file
        if not path.exists() or test not in _tests(path):
            found.append(f"{file}::{test}")
    planted = PLANTED.findall(text)
    return found + [each for each in planted if not (ROOT / "tests" / "planted" / f"{each}.patch").exists()]


def _tests(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {each.name for each in tree.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)}


@pytest.mark.contract("R1", "R7")
def test_every_test_that_the_catalogue_of_faults_names_is_there() -> None:
    text = PAGE.read_text(encoding="utf-8")

    assert len(NAMED.findall(text)) > 200
    assert missing(text) == []


def test_every_fault_has_its_test_or_says_why_not() -> None:
    """A row of a table without a name in backticks would be a claim that nobody can follow."""
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    told = [
        line for line in rows if not line.startswith(("| the hole", "| of |", "| when |", "| what |", "| attack |"))
    ]

    assert [line for line in told if "`" not in line.partition(" | ")[2]] == []


NUMBERS = (
    "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine", "Ten", "Eleven", "Twelve", "Thirteen", "Fourteen",
    "Fifteen", "Sixteen", "Seventeen", "Eighteen", "Nineteen",
)  # fmt: skip


def test_what_has_no_test_is_counted() -> None:
    _, _, told = PAGE.read_text(encoding="utf-8").partition("## What has no test")
    number = told.split(maxsplit=1)[0]

    assert sum(line.startswith("- ") for line in told.splitlines()) == 1 + NUMBERS.index(number)


def test_a_name_that_leads_nowhere_is_found() -> None:
    text = "`crash/test_kill.py::test_nothing_of_the_kind` and `crash/test_none.py::test_x`, planted as `no-such-bug`"

    assert missing(text) == [
        "crash/test_kill.py::test_nothing_of_the_kind",
        "crash/test_none.py::test_x",
        "no-such-bug",
    ]
