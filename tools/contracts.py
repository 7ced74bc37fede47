"""Go from a rule to the tests that prove it.

A rule is a heading of docs/contracts (`### K1 · PostgreSQL is the truth`). A test or a benchmark names the rules it proves,
`@pytest.mark.contract("K1")`. Both are read as text: nothing is imported, so the answer is there in a moment and also
when a test module is broken.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = "docs/contracts/*.md"
PROOFS = ("tests/**/*.py", "bench/**/*.py")

RULE = re.compile(r"^### (?P<id>[A-Z][0-9]+) · (?P<title>.+?)\s*$", re.MULTILINE)
ALMOST = re.compile(r"^#{1,6} *(?P<id>[A-Z][0-9]+)\b.*$", re.MULTILINE)
NOT_BUILT = "not built yet"


class Wrong(Exception):
    """A page or a tag is not written in the agreed form."""


@dataclass(frozen=True)
class Rule:
    """One promise."""

    id: str
    title: str
    page: str

    @property
    def order(self) -> tuple[str, int]:
        """Sort K2 before K10."""
        return self.id[0], int(self.id[1:])


@dataclass(frozen=True)
class Proof:
    """One test that claims to prove a rule."""

    rule: str
    test: str


def rules(root: Path) -> list[Rule]:
    """Read the rules of all pages, in order."""
    found: dict[str, Rule] = {}
    for page in sorted(root.glob(PAGES)):
        if page.name == "README.md":
            continue
        text = page.read_text(encoding="utf-8")
        for heading in RULE.finditer(text):
            rule = Rule(heading["id"], heading["title"], page.name)
            if rule.id in found:
                raise Wrong(f"{page.name}: {rule.id} is already a rule of {found[rule.id].page}.")
            found[rule.id] = rule
        for heading in ALMOST.finditer(text):
            if heading["id"] not in found:
                raise Wrong(f"{page.name}: write `### {heading['id']} · title`, not `{heading[0]}`.")
    return sorted(found.values(), key=lambda rule: rule.order)


def proofs(root: Path) -> list[Proof]:
    """Read the tags of all tests and benchmarks."""
    found: list[Proof] = []
    for pattern in PROOFS:
        for file in sorted(root.glob(pattern)):
            tree = ast.parse(file.read_text(encoding="utf-8"), filename=str(file))
            found.extend(_tags(tree, str(file.relative_to(root))))
    return found


def _tags(node: ast.AST, where: str) -> Iterator[Proof]:
    """Walk down, remembering the test that a tag stands on."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield from _tags(child, f"{where}::{child.name}")
            continue
        if isinstance(child, ast.Call) and _is_tag(child.func):
            for argument in child.args:
                if not (isinstance(argument, ast.Constant) and isinstance(argument.value, str)):
                    raise Wrong(f"{where}, line {child.lineno}: a contract tag holds plain strings.")
                yield Proof(argument.value, where)
        yield from _tags(child, where)


def _is_tag(function: ast.expr) -> bool:
    return (
        isinstance(function, ast.Attribute)
        and function.attr == "contract"
        and isinstance(function.value, ast.Attribute)
        and function.value.attr == "mark"
    )


def gather(known: Sequence[Rule], tagged: Sequence[Proof]) -> dict[Rule, list[str]]:
    """Put each test under the rules it proves; a tag without a rule is a mistake."""
    tests: dict[str, list[str]] = defaultdict(list)
    for proof in tagged:
        tests[proof.rule].append(proof.test)
    strangers = sorted(set(tests) - {rule.id for rule in known})
    if strangers:
        raise Wrong(f"{tests[strangers[0]][0]} proves {strangers[0]}, which is no rule of docs/contracts.")
    return {rule: sorted(set(tests[rule.id])) for rule in known}


def wanted(rule: Rule, only: Sequence[str]) -> bool:
    """Say whether a rule is meant by `K` (a page) or `K7` (one rule)."""
    return any(word in (rule.id, rule.id[0]) for word in only)


def unproven(table: Mapping[Rule, Sequence[str]], only: Sequence[str]) -> list[str]:
    """Return the ids that no test proves."""
    return [rule.id for rule, tests in table.items() if not tests and wanted(rule, only)]


def show(table: Mapping[Rule, Sequence[str]]) -> str:
    """Lay out every rule with its tests."""
    lines: list[str] = []
    for rule, tests in table.items():
        lines.append(f"{rule.id:<4} {rule.title}")
        lines.extend(f"       {test}" for test in tests or ["- no test"])
    proven = sum(1 for tests in table.values() if tests)
    later = sum(1 for rule, tests in table.items() if not tests and NOT_BUILT in rule.title)
    lines.append(f"\n{proven} of {len(table)} rules have a test; {later} of the others belong to domains {NOT_BUILT}.")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None, *, root: Path = ROOT) -> int:
    """Answer on stdout; complain on stderr."""
    parser = argparse.ArgumentParser(description="List the rules of docs/contracts and the tests that prove them.")
    parser.add_argument("--only", metavar="K,T7", help="print just the ids without a test, one a line")
    parser.add_argument("--check", action="store_true", help="only check that pages and tags are well formed")
    asked = parser.parse_args(arguments)
    try:
        table = gather(rules(root), proofs(root))
    except (Wrong, SyntaxError) as error:
        print(f"contracts: {error}", file=sys.stderr)
        return 2
    if asked.check:
        return 0
    if asked.only:
        missing = unproven(table, [word.strip() for word in asked.only.split(",") if word.strip()])
        print("\n".join(missing), end="\n" if missing else "")
        return 1 if missing else 0
    print(show(table))
    return 0


if __name__ == "__main__":
    sys.exit(main())
