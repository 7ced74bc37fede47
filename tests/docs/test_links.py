"""A link leads somewhere."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
LINK = re.compile(r"\]\((?!https?://)(?P<path>[^)#\s]*)(?:#(?P<heading>[^)\s]*))?\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
PAGES = sorted(page for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "bench").glob("*.md")])


def anchors(page: Path) -> set[str]:
    headings = HEADING.findall(page.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    astray = []
    for link in LINK.finditer(page.read_text(encoding="utf-8")):
        goal = (page.parent / link["path"]).resolve() if link["path"] else page
        if not goal.exists() or (link["heading"] and link["heading"] not in anchors(goal)):
            astray.append(link[0])

    assert astray == []


def test_every_decision_is_in_the_index() -> None:
    index = (ROOT / "docs/README.md").read_text(encoding="utf-8")

    assert [page.name for page in (ROOT / "docs/adr").glob("*.md") if f"adr/{page.name}" not in index] == []


def test_every_page_can_be_reached_from_the_index() -> None:
    index = (ROOT / "docs/README.md").read_text(encoding="utf-8")
    pages = [page.relative_to(ROOT / "docs") for page in (ROOT / "docs").rglob("*.md")]

    assert [str(page) for page in pages if str(page) not in index and page.name != "README.md"] == []


@pytest.mark.parametrize("folder", ["guide", "adr"])
def test_the_index_numbers_each_page_once(folder: str) -> None:
    index = (ROOT / "docs/README.md").read_text(encoding="utf-8")
    listed = re.findall(rf"^(\d+)\. \[.+?\]\({folder}/([^)]+)\)", index, re.MULTILINE)

    assert [int(number) for number, _page in listed] == list(range(1, len(listed) + 1))
    assert sorted(page for _number, page in listed) == sorted(
        page.name for page in (ROOT / "docs" / folder).glob("*.md")
    )
