"""Every Python block of the pages is run, against a real database; so are `$ ferryman …` and `$ curl …` of console blocks.

The blocks of a page run in order and share their names, as if they were typed one after the other. A block may `await` at
its top level, as in `python -m asyncio`. A page that defines tests is run by pytest instead.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import os
import re
import shlex
import shutil
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from ferryman.app.embedded import keeper, place
from ferryman.app.embedded.locks import Lock
from tests.docs import curl
from tests.patience import PATIENCE_SECONDS
from tests.surfaces import ferry
from tests.testing.test_plugin import PLUGIN

ROOT = Path(__file__).resolve().parent.parent.parent
BLOCK = re.compile(r"^```(?P<kind>python|console)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
PROMPT = "$ ferryman "
TESTS = re.compile(r"^(async )?def test_", re.MULTILINE)
FEW = ["--ferryman-seeds=3"]


class Block(NamedTuple):
    """A piece of a page, and the number of lines before it."""

    kind: str
    before: int
    code: str

    def placed(self) -> str:
        """The code at its own lines, so that a traceback points into the page."""
        return "\n" * self.before + self.code


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(found["kind"], text.count("\n", 0, found.start("code")), found["code"]) for found in BLOCK.finditer(text)
    ]


def with_blocks() -> Iterator[str]:
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        if blocks(page):
            yield str(page.relative_to(ROOT))


PAGES = tuple(with_blocks())
TESTED = tuple(page for page in PAGES if any(TESTS.search(block.code) for block in blocks(ROOT / page)))


def run(page: Path) -> None:
    names: dict[str, object] = {}
    with asyncio.Runner() as runner:
        for block in blocks(page):
            if block.kind == "console":
                type_in(block)
                if curl.commands(block.code):
                    runner.run(curl.type_in(block.code, names))
                continue
            # A whole program is run as one.
            names["__name__"] = "__main__" if '"__main__"' in block.code else page.stem
            code = compile(block.placed(), str(page), "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
            running = types.FunctionType(code, names)()
            if code.co_flags & inspect.CO_COROUTINE:
                runner.run(running)


def type_in(block: Block) -> None:
    """Run the commands of a console block; each must succeed."""
    for line in block.code.splitlines():
        if line.startswith(PROMPT):
            words = shlex.split(line.removeprefix(PROMPT))
            ran = ferry.run(*words, url=None, given="", cwd=Path.cwd(), patience=PATIENCE_SECONDS, **_settings())
            assert ran.code == 0, f"{line}\n{ran.out}{ran.err}"


def _settings() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith("FERRYMAN_")}


@pytest.fixture
def surroundings(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FERRYMAN_DATABASE_URL", database_url)
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("surroundings")
@pytest.mark.parametrize("name", [page for page in PAGES if page not in TESTED])
def test_the_blocks_of_a_page_run(name: str) -> None:
    run(ROOT / name)


def alone(directory: Path) -> dict[str, str]:
    """The environment of a program that knows of no database."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("FERRYMAN_")}
    return {**kept, "PYTHONPATH": str(ROOT / "src"), "HOME": str(directory)}


@pytest.mark.parametrize("name", TESTED)
def test_the_tests_on_a_page_pass(name: str, tmp_path: Path) -> None:
    file = tmp_path / f"test_{(ROOT / name).stem}.py"
    file.write_text("\n\n".join(block.code for block in blocks(ROOT / name)), encoding="utf-8")

    ended = subprocess.run(
        [sys.executable, "-m", "pytest", *PLUGIN, "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), *FEW, str(file)],
        cwd=tmp_path, env=alone(tmp_path), capture_output=True, text=True, timeout=3 * PATIENCE_SECONDS, check=False,
    )  # fmt: skip

    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    # What root lodges elsewhere does not go with the test's own directory.
    lodged = place.lodge(tmp_path / ".ferryman" / "postgres")
    Lock(lodged.home / keeper.KEEPER).wait_free(PATIENCE_SECONDS)
    for made in lodged.made():
        shutil.rmtree(made, ignore_errors=True)


def test_the_program_of_the_front_page_runs_with_nothing_but_itself(project: Path) -> None:
    (project / "hello.py").write_text(blocks(ROOT / "README.md")[0].code, encoding="utf-8")

    ended = subprocess.run(
        [sys.executable, "hello.py"],
        cwd=project, env=alone(project), capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False,
    )  # fmt: skip

    assert (ended.returncode, ended.stdout) == (0, "Hello, Ada\n"), ended.stderr
