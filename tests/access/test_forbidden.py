"""What no line of ours may do (R7): run what is data, or build SQL of it."""

import re
from pathlib import Path

import pytest

from ferryman.kernel.pool import Database

SOURCES = Path(__file__).resolve().parent.parent.parent / "src" / "ferryman"
FORBIDDEN = re.compile(
    r"^\s*(?:import|from)\s+(?:pickle|marshal|shelve|dill|cloudpickle|yaml|xmlrpc)\b"
    r"|(?<![.\w])(?:eval|exec|compile|__import__)\(|\bshell\s*=",
    re.MULTILINE,
)


@pytest.mark.contract("R7")
def test_nothing_that_is_data_is_ever_run_or_unpickled() -> None:
    files = list(SOURCES.rglob("*.py"))
    found = {str(file): said for file in files if (said := FORBIDDEN.findall(file.read_text(encoding="utf-8")))}

    assert len(files) > 300
    assert found == {}
    assert (
        len(FORBIDDEN.findall("import pickle\nfrom yaml import load\neval('1')\nrun('x', shell=True)\nre.compile('x')"))
        == 4
    )


@pytest.mark.contract("R7")
async def test_no_function_in_the_database_has_rights_that_its_caller_has_not(db: Database) -> None:
    async with db.session() as tx:
        rows = await tx.fetch("select proname from pg_proc where pronamespace = 'ferryman'::regnamespace and prosecdef")

    assert [row["proname"] for row in rows] == []
