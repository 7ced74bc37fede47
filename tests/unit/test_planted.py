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
