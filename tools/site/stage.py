"""The pages of the repository as the generator wants them: one tree, whole links, no diagram that needs a script."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tools import diagram
from tools.site import http

LINK = re.compile(r"(?P<before>!?\[(?P<text>(?:[^\[\]]|\[[^\]]*\])*)\]\()(?P<path>[^)#\s]*)(?P<heading>#[^)\s]*)?\)")
MERMAID = re.compile(r"```mermaid\n(?P<text>.*?)```\n", re.DOTALL)
FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
TITLE = re.compile(r"^# (.+)$", re.MULTILINE)
SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
LISTED = re.compile(r"^\d+\. \[(?P<title>.+?)\]\((?P<path>(?P<folder>guide|adr)/[^)]+)\)", re.MULTILINE)
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)

# Where a file of the repository stands in the site, if not at its own path below docs/.
MOVED = {
    "README.md": "index.md",
    "docs/README.md": "contents.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
REFERENCE = "reference.md"
PICTURES = (".png", ".svg", ".webp", ".json", ".sql")

Nav = list[dict[str, object]]


@dataclass
class Staged:
    """A tree of pages, and how they are ordered."""

    folder: Path
    pages: dict[str, str] = field(default_factory=dict)  # path in the site: text
    nav: Nav = field(default_factory=list)

    def title(self, path: str) -> str:
        """Return the first heading of a page."""
        found = TITLE.search(self.pages[path])
        return path if found is None else found[1].replace("`", "").removeprefix("The life of a row of ")


def stage(root: Path, folder: Path) -> Staged:
    """Write the tree below a folder, and return what is in it."""
    staged = Staged(folder)
    texts = dict(_read(root))
    sections = _sections(texts.pop(f"docs/{REFERENCE}", ""))
    places = {name: MOVED.get(name, name.removeprefix("docs/")) for name in texts}
    anchors = {_slug(heading): path for path, text in sections.items() for heading in _headings(text)}
    for name, text in texts.items():
        turn = _turner(root, name, places, anchors)
        staged.pages[places[name]] = _drawn(_outside_of_fences(text, turn), title=name)
    for path, text in sections.items():
        staged.pages[path] = _outside_of_fences(text, _turner(root, f"docs/{REFERENCE}", places, anchors))
    described = root / "docs/openapi.json"
    if described.exists():
        staged.pages["reference/http.md"] = http.page(json.loads(described.read_text(encoding="utf-8")))
    staged.nav = _nav(staged, texts["docs/README.md"])
    _write(root, staged)
    return staged


def _read(root: Path) -> Iterator[tuple[str, str]]:
    for path in [root / name for name in MOVED if (root / name).exists() and "/" not in name] + sorted(
        (root / "docs").rglob("*.md")
    ):
        yield str(path.relative_to(root)), COMMENT.sub("", path.read_text(encoding="utf-8"))


def _sections(text: str) -> dict[str, str]:
    """Divide the reference: what can be imported on one page, and settings, metrics and codes on one each."""
    parts = SECTION.split(text)
    pages: dict[str, list[str]] = {}
    for heading, body in zip(parts[1::2], parts[2::2], strict=True):
        name = {"Settings": "settings", "Metrics": "metrics", "Error codes": "errors"}.get(heading, "python")
        pages.setdefault(name, []).append(f"# {heading}\n{body}" if name != "python" else f"## {heading}\n{body}")
    if "python" in pages:
        pages["python"].insert(0, "# The public names\n")
    return {f"reference/{name}.md": "\n".join(bodies) for name, bodies in pages.items()}


def _headings(text: str) -> list[str]:
    return re.findall(r"^#+ (.+)$", FENCE.sub("", text), re.MULTILINE)


def _slug(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _anchored(heading: str) -> str:
    """Spell the name of a heading as the generator does: one hyphen where several meet."""
    return re.sub(r"-+", "-", heading)


def _turner(root: Path, name: str, places: dict[str, str], anchors: dict[str, str]) -> Callable[[str], str]:
    """Return what turns the links of a file towards the pages of the site; what is not in it keeps its words alone."""
    here = posixpath.dirname(places.get(name, "reference/here.md"))

    def turned(found: re.Match[str]) -> str:
        path, heading = found["path"], found["heading"] or ""
        if not path:
            return f"{found['before']}{_anchored(heading)})"
        if "://" in path:
            return found[0]
        goal = posixpath.normpath(posixpath.join(posixpath.dirname(name), path))
        if goal == f"docs/{REFERENCE}":
            place = anchors.get(heading.removeprefix("#"), "reference/python.md")
        elif goal in places:
            place = places[goal]
        elif goal.startswith("docs/") and goal.endswith(PICTURES) and (root / goal).exists():
            place = goal.removeprefix("docs/")
        elif goal == "docs":
            place = MOVED["docs/README.md"]
        else:
            return found["text"]
        return f"{found['before']}{posixpath.relpath(place, here or '.')}{_anchored(heading)})"

    return lambda text: LINK.sub(turned, text)


def _outside_of_fences(text: str, change: Callable[[str], str]) -> str:
    return "".join(part if part.startswith("```") else change(part) for part in FENCE.split(text))


def _drawn(text: str, *, title: str) -> str:
    """Draw the diagrams."""
    return MERMAID.sub(lambda found: diagram.draw(found["text"], title=f"Diagram of {title}") + "\n\n", text)


def _nav(staged: Staged, index: str) -> Nav:
    """Order all pages: to learn, to do, to look up, to understand."""
    listed = [(found["folder"], found["path"]) for found in LISTED.finditer(index)]

    def under(folder: str) -> Nav:
        return _entries(staged, sorted(path for path in staged.pages if path.startswith(folder)))

    def present(*paths: str) -> Nav:
        return _entries(staged, [path for path in paths if path in staged.pages])

    nav: Nav = [
        {"Ferryman": "index.md"},
        *present("tutorial.md"),
        {"How to": _entries(staged, [path for folder, path in listed if folder == "guide" and path in staged.pages])},
        {
            "Reference": [
                *present("reference/python.md", "cli.md", "reference/http.md", "reference/settings.md"),
                *present("reference/errors.md", "reference/metrics.md", "glossary.md"),
            ]
        },
        {
            "Explanation": [
                {"What is promised": under("contracts/")},
                {"Lives": under("machines/")},
                *present("bounds.md", "reliability.md", "faults.md", "performance.md"),
                {
                    "Decisions": _entries(
                        staged, [path for folder, path in listed if folder == "adr" and path in staged.pages]
                    )
                },
            ]
        },
        {"Project": present("contents.md", "contributing.md", "changelog.md")},
    ]
    known = set(paths(nav))
    left = _entries(staged, sorted(path for path in staged.pages if path not in known))
    return [*nav, {"More": left}] if left else nav


def _entries(staged: Staged, found: list[str]) -> Nav:
    return [{staged.title(path): path} for path in found]


def paths(nav: Nav) -> Iterator[str]:
    """Give every page of a navigation."""
    for entry in nav:
        for below in entry.values():
            if isinstance(below, str):
                yield below
            else:
                yield from paths(below)  # type: ignore[arg-type] # the same, one deeper


def _write(root: Path, staged: Staged) -> None:
    for path, text in staged.pages.items():
        goal = staged.folder / path
        goal.parent.mkdir(parents=True, exist_ok=True)
        goal.write_text(text, encoding="utf-8")
    for file in (root / "docs").rglob("*"):
        if file.suffix in PICTURES:
            goal = staged.folder / file.relative_to(root / "docs")
            goal.parent.mkdir(parents=True, exist_ok=True)
            goal.write_bytes(file.read_bytes())
