"""A file that grows wants to be split along a noun; a function too."""

import ast
from pathlib import Path

import pytest

SOURCES = Path(__file__).resolve().parent.parent.parent / "src"
LINES_OF_A_FILE = 400
LINES_OF_A_FUNCTION = 60

# What may be longer, and why.
EXCEPTIONS: dict[str, str] = {
    "ferryman/kernel/errors.py": "every stable code in one list: one class of a few lines each",
    "ferryman/migrations/0017_ingest.sql": "nine tables that name each other, their guards and views; a migration stays whole",
    "ferryman/migrations/0007_create_tasks.sql": "one function with the checks it stands on; a migration stays whole",
}


def functions(file: Path) -> list[tuple[str, int]]:
    return [
        (f"{file.relative_to(SOURCES)}::{node.name}", (node.end_lineno or node.lineno) - node.lineno + 1)
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


@pytest.mark.parametrize("kind", ["py", "sql"])
def test_no_file_is_longer_than_can_be_read_at_once(kind: str) -> None:
    lengths = {
        str(file.relative_to(SOURCES)): len(file.read_text(encoding="utf-8").splitlines())
        for file in SOURCES.rglob(f"*.{kind}")
    }

    assert {name: n for name, n in lengths.items() if n > LINES_OF_A_FILE and name not in EXCEPTIONS} == {}


def test_no_function_is_longer_than_a_screen() -> None:
    lengths = [each for file in SOURCES.rglob("*.py") for each in functions(file)]

    assert [(name, n) for name, n in lengths if n > LINES_OF_A_FUNCTION and name not in EXCEPTIONS] == []


def test_every_exception_is_still_needed() -> None:
    long = {name for file in SOURCES.rglob("*.py") for name, n in functions(file) if n > LINES_OF_A_FUNCTION}
    long |= {
        str(file.relative_to(SOURCES))
        for kind in ("py", "sql")
        for file in SOURCES.rglob(f"*.{kind}")
        if len(file.read_text(encoding="utf-8").splitlines()) > LINES_OF_A_FILE
    }

    assert set(EXCEPTIONS) - long == set()
