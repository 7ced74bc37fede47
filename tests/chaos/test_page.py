"""R3: the tables of figures on the page have the form that a run writes now; their values may be of an older run."""

import re
from pathlib import Path
from typing import Any

import pytest

from chaos import aims, anew, report, soak
from chaos.checker import cases, recovery
from tests.chaos.test_figures import Told
from tests.chaos.test_report import GROWTH, SOAK, WILD

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reliability.md"
# Rows that are there only where there was such a case, by how they begin.
LEFT_OUT = "left out of what is judged: "
LEVEL = {"who": "tasks", "value": 0.1, "bar": 0.2, "judged": 9, "looks": 48}
WIDE = [anew.Width("tasks", False, 9, 8), anew.Width("tasks_pkey", True, 9, 8)]
MANY: dict[str, Any] = {"windows": (aims.HUNDRED, 3.0, 4.0, 5.0)}


def shape(name: str) -> str:
    """Leave numbers out of the name of a row: how many were judged, and how long leases are, is of its run."""
    return re.sub(r"\d[\d.,]*", "#", name).strip()


def part(text: str, mark: str) -> str:
    """Give what stands between two marks."""
    begin, end = (each.format(mark) for each in report.MARKS)
    return text.partition(begin)[2].partition(end)[0]


def tables(text: str, mark: str) -> list[set[str]]:
    """Give the names of the rows of each table between two marks."""
    found = [
        re.findall(r"^\| (.*?) \|", table, re.MULTILINE)
        for table in re.split(r"\n(?!\|)", part(text, mark))
        if "|---" in table
    ]
    return [{shape(name) for name in names[1:]} for names in found]


def rows(found: aims.Found) -> set[str]:
    """Give the names of the rows that a run writes, but for what is left out."""
    return {shape(each.what) for each in aims.judge(found) if not each.what.startswith(LEFT_OUT)}


def soaked(wanted: tuple[tuple[str, str], ...]) -> aims.Found:
    """A soak in which all was looked at that must be."""
    kinds = {kind for kind, _ in wanted}
    grown = {kind: GROWTH for kind in soak.BARS if kind in kinds}
    return {**SOAK, "soak": grown, "levels": dict.fromkeys(soak.LEVELS, LEVEL), "wide": anew.told(WIDE)}


HOUR = soaked(soak.WANTED)
LEAVING = {**soaked(soak.WANTED_OF_LEAVING), "wide": {}, "retention": 60.0}
WRITES = {
    "chaos": (rows(WILD), rows({**WILD, **MANY})),
    "soak": (rows(HOUR), rows(HOUR)),
    "retention": (rows(LEAVING), rows(LEAVING)),
}
REASONS = {shape(f"{LEFT_OUT}{why}") for name, why in vars(recovery).items() if name.isupper() and isinstance(why, str)}


def differs(text: str, mark: str) -> dict[str, set[str]]:
    """Say which rows are missing on a page, and which are none that a run writes."""
    always, ever = WRITES[mark]
    [there, *_] = tables(text, mark) or [set()]
    return {"missing": always - there, "strange": there - ever - REASONS}


@pytest.mark.contract("R3")
@pytest.mark.parametrize("mark", WRITES)
def test_the_tables_on_the_page_have_the_rows_that_a_run_writes_now(mark: str) -> None:
    text = PAGE.read_text(encoding="utf-8")

    assert differs(text, mark) == {"missing": set(), "strange": set()}


@pytest.mark.contract("R3")
def test_the_cases_on_the_page_are_those_that_a_run_counts_now() -> None:
    nothing: Any = Told()
    [_, met] = tables(PAGE.read_text(encoding="utf-8"), "chaos")

    assert met == {shape(case) for case in cases.cases(nothing, (), zombies=0)}


@pytest.mark.contract("R3")
@pytest.mark.parametrize(
    ("mark", "found"), [("chaos", {**WILD, **MANY}), ("chaos", WILD), ("soak", HOUR), ("retention", LEAVING)]
)
def test_what_a_run_writes_has_the_form_and_a_row_more_or_less_has_not(
    tmp_path: Path, mark: str, found: aims.Found
) -> None:
    page = tmp_path / "page.md"
    page.write_text("\n".join(each.format(mark) for each in report.MARKS), encoding="utf-8")
    report.write(page, found)
    text = page.read_text(encoding="utf-8")

    assert differs(text, mark) == {"missing": set(), "strange": set()}
    assert differs(text.replace("| overdue |", "| late |"), mark) == {"missing": {"overdue"}, "strange": {"late"}}
