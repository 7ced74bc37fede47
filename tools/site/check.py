"""What must be true of a site that was made: every link leads somewhere, and nothing is fetched from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# What a browser fetches by itself; a link to elsewhere is only followed by who clicks it.
FETCHED = {
    **dict.fromkeys(("script", "img", "iframe", "source", "video", "audio", "embed"), "src"),
    "link": "href",
    "object": "data",
}
# Words for programs that index a site; a browser fetches nothing for them.
TOLD = {"canonical", "prev", "next", "alternate", "edit"}


@dataclass
class Read(HTMLParser):
    """What a page links to and is made of."""

    links: list[str] = field(default_factory=list)
    fetched: list[str] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take what one element says."""
        given = {name: value or "" for name, value in attrs}
        self.ids |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        named = FETCHED.get(tag)
        if named in given and given.get("rel", "") not in TOLD:
            self.fetched.append(given[named])


@cache
def read(page: Path) -> Read:
    """Read a page, once."""
    found = Read()
    found.feed(page.read_text(encoding="utf-8"))
    return found


def faults(site: Path) -> list[str]:
    """Name everything that is wrong with a site."""
    read.cache_clear()
    return [each for page in sorted(site.rglob("*.html")) for each in _faults(site, page)]


def _faults(site: Path, page: Path) -> Iterator[str]:
    name = page.relative_to(site)
    found = read(page)
    for address in found.fetched:
        if urlsplit(address).netloc:
            yield f"{name} fetches {address}"
        elif not address.startswith("data:") and _goal(site, page, address) is None:
            yield f"{name} lacks {address}"
    # A page for addresses that are not there is shown at any of them: its links are from the root.
    for address in found.links if name.name != "404.html" else ():
        parts = urlsplit(address)
        if parts.scheme or parts.netloc:
            continue
        goal = _goal(site, page, parts.path) if parts.path else page
        if goal is None:
            yield f"{name} leads to {address}, which is not there"
        elif parts.fragment and goal.suffix == ".html" and unquote(parts.fragment) not in read(goal).ids:
            yield f"{name} leads to {address}, and there is no such heading"


def _goal(site: Path, page: Path, address: str) -> Path | None:
    path = unquote(urlsplit(address).path)
    goal = (site / path.lstrip("/") if path.startswith("/") else page.parent / path).resolve()
    if goal.is_dir():
        goal /= "index.html"
    return goal if goal.exists() else None
