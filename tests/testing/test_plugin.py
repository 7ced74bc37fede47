"""R9: the fixtures that users' own tests get, in a run of pytest of its own."""

import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# An environment that was made before the plugin was knows it by its module alone.
PLUGIN = [] if entry_points(group="pytest11", name="ferryman") else ["-p", "ferryman.testing.plugin"]

# It counts on being run once, which is wrong: a death after the effect and before the end lets it be done again.
NAIVE = """
from ferryman import Ferryman

app = Ferryman("postgresql://nowhere")


async def test_an_order_is_charged_once(ferryman_crashes, tmp_path):
    @app.task(name=f"charge-{tmp_path.name}", backoff=0)
    async def charge() -> None:
        with (tmp_path / "charged").open("a") as file:
            file.write("x")

    async with ferryman_crashes(app) as trial:
        await app.tasks.create(charge)
        await trial.run(timeout=120)
        assert (tmp_path / "charged").read_text() == "x"


async def test_without_crashes_it_is(ferryman_trial, ferryman_url):
    async with ferryman_trial(app) as trial:
        await trial.run()
        assert app.settings.database_url == ferryman_url
"""


@pytest.mark.contract("R9")
def test_a_handler_that_counts_on_doing_things_once_is_found_and_its_seed_is_told(tmp_path: Path) -> None:
    (tmp_path / "test_naive.py").write_text(NAIVE, encoding="utf-8")
    kept = {key: value for key, value in os.environ.items() if not key.startswith("FERRYMAN_")}
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", *PLUGIN, "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), "-o",
         "asyncio_mode=auto", "--ferryman-seeds=2", str(tmp_path)],
        cwd=tmp_path, env={**kept, "PYTHONPATH": str(ROOT / "src")}, capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip

    # The second dies after the effect and before the end.
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert "FAILED test_naive.py::test_an_order_is_charged_once[seed=2]" in ended.stdout
    assert "the same again: --ferryman-seed=2" in ended.stdout


@pytest.mark.contract("R9")
def test_a_run_of_pytest_that_does_not_ask_for_it_does_not_pay_for_it() -> None:
    code = "import sys, ferryman.testing.plugin; print(sorted({'asyncpg', 'orjson', 'pydantic'} & set(sys.modules)))"
    said = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(ROOT / "src")}, capture_output=True, text=True,
        check=True,
    )  # fmt: skip

    assert said.stdout.strip() == "[]"
