"""What no line of ours may do (R7): run what is data, or build SQL of it."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from ferryman.kernel.pool import Database

SOURCES = Path(__file__).resolve().parent.parent.parent / "src" / "ferryman"
UNPACKERS = {
    "pickle",
    "_pickle",
    "marshal",
    "shelve",
    "dill",
    "cloudpickle",
    "jsonpickle",
    "joblib",
    "yaml",
    "xmlrpc",
    "code",
}
RUNNERS = {"eval", "exec", "compile", "__import__"}
# What loads code by a name, and who may: by a name of the command line, of our own list, of a handler that was declared.
LOADERS = {"import_module", "run_path", "run_module", "spec_from_file_location", "exec_module", "SourceFileLoader"}
MAY_LOAD = {
    "__init__.py": {"import_module"},
    "cli/apps.py": {"import_module"},
    "tasks/work/child.py": {"import_module", "run_path"},
    "testing/__init__.py": {"import_module"},
}


def forbidden(source: str, *, may: frozenset[str] = frozenset()) -> list[str]:
    """Return what a module does that it may not, however it is spelled."""
    return [said for node in ast.walk(ast.parse(source)) for said in _said(node) if said not in may]


def _said(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Import(names=names):
            yield from (each.name for each in names if each.name.partition(".")[0] in UNPACKERS)
        case ast.ImportFrom(module=module, names=names):
            if (module or "").partition(".")[0] in UNPACKERS and not node.level:
                yield str(module)
            yield from (each.name for each in names if each.name in LOADERS and (each.asname or each.name) != each.name)
        # Also where it is only named, to be called by another name; not where a field has that name.
        case ast.Name(id=name, ctx=ast.Load()) if name in RUNNERS | LOADERS:
            yield name
        case ast.Attribute(attr=name, value=ast.Name(id=home)) if name in RUNNERS and home == "builtins":
            yield name
        case ast.Attribute(attr=name) if name in LOADERS:
            yield name
        case ast.keyword(arg="shell", value=value) if not (isinstance(value, ast.Constant) and value.value is False):
            yield "shell"
        case ast.Attribute(attr="system" | "popen", value=ast.Name(id="os")):
            yield "os.system"


# Each once, in a spelling of its own.
CAUGHT = [
    "import pickle", "import os, pickle", "import os, pickle as p", "from yaml import load", "import xmlrpc.client",
    "eval('1')", "run = exec", "import builtins\nbuiltins.eval('1')", "__import__('os')",
    "import importlib\nimportlib.import_module(name)", "from importlib import import_module\nimport_module(name)",
    "from importlib import import_module as bring\nbring(name)", "import runpy\nrunpy.run_path(name)",
    "run('x', shell=True)", "run('x', shell = yes)", "import os\nos.system('x')",
]  # fmt: skip
FINE = [
    "import re\nre.compile('x')", "from importlib import resources", "from ferryman.kernel import marshalling",
    "run('x', shell=False)", "from .code import x", "model.eval()",
]  # fmt: skip


@pytest.mark.contract("R7")
def test_nothing_that_is_data_is_ever_run_or_unpickled() -> None:
    files = {str(file.relative_to(SOURCES)): file.read_text(encoding="utf-8") for file in SOURCES.rglob("*.py")}
    found = {
        name: said
        for name, source in files.items()
        if (said := forbidden(source, may=frozenset(MAY_LOAD.get(name, ()))))
    }

    assert len(files) > 300
    assert found == {}


@pytest.mark.parametrize("source", CAUGHT)
def test_each_spelling_of_it_is_noticed(source: str) -> None:
    assert forbidden(source)


@pytest.mark.parametrize("source", FINE)
def test_what_only_looks_like_it_is_left_alone(source: str) -> None:
    assert forbidden(source) == []


@pytest.mark.contract("R7")
async def test_no_function_in_the_database_has_rights_that_its_caller_has_not(db: Database) -> None:
    async with db.session() as tx:
        rows = await tx.fetch("select proname from pg_proc where pronamespace = 'ferryman'::regnamespace and prosecdef")

    assert [row["proname"] for row in rows] == []
