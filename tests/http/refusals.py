"""Whether a server refuses only as its document says: every client of these tests asks."""

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

DOCUMENT = Path(__file__).resolve().parent.parent.parent / "docs" / "openapi.json"


@cache
def _operations() -> list[tuple[str, re.Pattern[str], dict[str, list[str]]]]:
    found = []
    for path, methods in json.loads(DOCUMENT.read_text())["paths"].items():
        shape = re.compile(re.sub(r"\\{[^}]*\\}", "[^/]+", re.escape(path)))
        found += [(method.upper(), shape, told["x-problems"], path.count("{")) for method, told in methods.items()]
    # A path without a name in it wins over one that has one there.
    return [each[:3] for each in sorted(found, key=lambda each: each[3])]


def check(method: str, target: str, status: int, problem: Any) -> None:
    """Refuse a code that the document does not declare for the operation that was asked."""
    if status < 400 or not isinstance(problem, dict) or "code" not in problem:
        return
    path = target.partition("?")[0]
    declared = next((told for name, shape, told in _operations() if name == method and shape.fullmatch(path)), None)
    if declared is not None:
        assert problem["code"] in declared.get(str(status), ()), f"{method} {path} answered {status} {problem['code']}"
