"""R9: the fixtures that users' own tests get, in runs of pytest of their own."""

import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from ferryman.testing import Crashes

ROOT = Path(__file__).resolve().parents[2]
# An environment that was made before the plugin was knows it by its module alone.
PLUGIN = [] if entry_points(group="pytest11", name="ferryman") else ["-p", "ferryman.testing.plugin"]

STORY = """
import os

from ferryman import Context, Ferryman

app = Ferryman("postgresql://nowhere")
LEDGER = os.environ["LEDGER"]


async def say(word: str) -> str:
    with open(LEDGER, "a") as file:
        file.write(word + "\\n")
    return word


@app.task(max_retries=10, backoff=0)
async def order(ctx: Context, number: int) -> list[str]:
    words = [await ctx.step("charge", say, "charge")]
    {between}
    words.append(await ctx.step("ship", say, "ship"))
    return words


async def test_an_order_is_done(ferryman_{fixture}):
    async with ferryman_{fixture}(app) as trial:
        handle = await app.tasks.create(order, number=7)
        await trial.run()
        assert await handle.result(timeout=5) == ["charge", "ship"]
        said = open(LEDGER).read().split()
        assert {claim}
        {then}
"""


def run(folder: Path, text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    file = folder / "test_story.py"
    file.write_text(text, encoding="utf-8")
    kept = {key: value for key, value in os.environ.items() if not key.startswith("FERRYMAN_")}
    # Forked processes write where the test looks: a file for each run of the story.
    (folder / "conftest.py").write_text(
        "import os, pytest\n"
        "@pytest.fixture(autouse=True)\n"
        "def ledger(tmp_path, monkeypatch):\n"
        "    os.environ['LEDGER'] = str(tmp_path / 'ledger')\n"
        "    import test_story; test_story.LEDGER = os.environ['LEDGER']\n",
        encoding="utf-8",
    )
    return subprocess.run(
        [sys.executable, "-m", "pytest", *PLUGIN, "-q", "-p", "no:cacheprovider", "--rootdir", str(folder), "-o",
         "asyncio_mode=auto", *arguments, str(file)],
        cwd=folder, env={**kept, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{folder}", "LEDGER": str(folder / "ledger")},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def story(fixture: str, *, between: str = "", claim: str = "True", then: str = "") -> str:
    return STORY.format(fixture=fixture, between=between or "pass", claim=claim, then=then or "pass")


@pytest.mark.contract("R9")
def test_work_is_done_in_the_test_until_nothing_is_due(tmp_path: Path) -> None:
    sleeps = "await ctx.sleep(3600)"
    # What sleeps for an hour is not due: the story must move the time.
    waits = run(tmp_path, story("trial", between=sleeps))
    moved = story("trial", between=sleeps).replace(
        "await trial.run()", "await trial.run(); await trial.travel(hours=2); await trial.run()"
    )

    assert waits.returncode == 1
    assert "TASK_RESULT_TIMEOUT" in waits.stdout or "Timeout" in waits.stdout, waits.stdout
    ended = run(tmp_path, moved)
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.contract("R9")
def test_a_handler_that_remembers_survives_every_crash(tmp_path: Path) -> None:
    # Each step is done, and remembered steps are not done again once the next one was reached.
    ended = run(tmp_path, story("crashes", claim="said[-1] == 'ship' and 'charge' in said", then="assert trial.deaths"),
                "--ferryman-seeds=5")  # fmt: skip

    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "5 passed" in ended.stdout


@pytest.mark.contract("R9")
def test_a_handler_that_counts_on_doing_things_once_is_found_and_its_seed_is_told(tmp_path: Path) -> None:
    naive = story("crashes", between='await say("twice?")', claim="said.count('twice?') == 1")
    ended = run(tmp_path, naive, "--ferryman-seeds=6")

    told = [line for line in ended.stdout.splitlines() if "the same again: --ferryman-seed=" in line]
    assert ended.returncode == 1, ended.stdout
    assert told, ended.stdout
    again = run(tmp_path, naive, told[0].split()[-1])
    assert (again.returncode, "1 failed" in again.stdout) == (1, True), again.stdout


@pytest.mark.contract("R9")
def test_one_seed_draws_the_same_deaths_and_a_row_of_seeds_meets_every_place() -> None:
    assert Crashes(7).lives() == Crashes(7).lives()
    assert [Crashes(seed).lives()[0] for seed in range(1, 9)] == list(range(1, 9))
    assert all(Crashes(seed).lives()[-1] == 0 for seed in range(50))
    assert {len(Crashes(seed).lives()) for seed in range(50)} == {2, 3, 4}


@pytest.mark.contract("R9")
def test_a_run_of_pytest_that_does_not_ask_for_it_does_not_pay_for_it() -> None:
    code = "import sys, ferryman.testing.plugin; print(sorted({'asyncpg', 'orjson', 'pydantic'} & set(sys.modules)))"
    said = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(ROOT / "src")}, capture_output=True, text=True,
        check=True,
    )  # fmt: skip

    assert said.stdout.strip() == "[]"
