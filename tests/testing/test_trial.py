"""R9: an app on a database of the test's own, work done until nothing is due, and deaths where a seed says."""

import asyncio
import os
import subprocess
import sys
from datetime import timedelta
from functools import partial
from pathlib import Path

import psutil
import pytest

from ferryman import Context, Ferryman, Turn
from ferryman.app.handle import Handle
from ferryman.kernel import errors, faults
from ferryman.testing import Cluster, Crashes, NobodyDied, trial
from ferryman.testing.crashes import PLACES
from tests.ingest.harbour import DAWN, HOUR, SOURCE, Server, hold, prepare
from tests.patience import PATIENCE_SECONDS
from tests.spread import EVERY_CASE

# Where `order` can die, and how often it then says each of its words. A step may be done again only if it died before it was
# remembered; what stands between two steps is done again too.
SAID = {
    "started": (1, 1, 1),
    "before the first step is remembered": (2, 1, 1),
    "after it": (1, 1, 1),
    "before the second step is remembered": (1, 2, 2),
    "after that": (1, 2, 1),
    "returned": (1, 2, 1),
    "settled": (1, 1, 1),
}
WORDS = ("charge", "outside", "ship")
# Orders that live beside each other, and the seeds that strike one of them.
SEVERAL = 3
SEEDS = range(1, SEVERAL * len(SAID) + 1)
# Every third seed strikes each place once, and each of the orders.
STRIKING = SEEDS if EVERY_CASE else SEEDS[::SEVERAL]
# What a task passes that waits for an event which has come, and then for a child; and one that sleeps.
BEARING = [
    "handler.started", "wait.before", "wait.committed", "birth.inside", "birth.committed", "park.committed",
    "handler.started", "handler.returned", "settle.committed",  # the child
    "handler.started", "handler.returned", "settle.committed",
]  # fmt: skip
# A test with crashes whose handler lets nobody else have the loop.
OWNER = """
import asyncio, os, sys, time
from ferryman import Ferryman
from ferryman.testing import Crashes, trial

app = Ferryman("postgresql://nowhere")


@app.task
async def hang() -> None:
    print(os.getpid(), flush=True)
    time.sleep(600)


async def story() -> None:
    async with trial.opened(app, sys.argv[1], crashes=Crashes(2)) as given:
        await app.tasks.create(hang)
        await given.run(timeout=600)


asyncio.run(story())
"""
SLEEPING = [
    "handler.started", "wait.before", "wait.committed", "park.committed",
    "handler.started", "wait.before", "wait.committed", "handler.returned", "settle.committed",
]  # fmt: skip


def story(ledger: Path) -> Ferryman:
    app = Ferryman("postgresql://nowhere", tasks={"max_retries": 10})

    async def say(word: str) -> str:
        with ledger.open("a", encoding="utf-8") as file:
            file.write(f"{word}\n")
        return word

    @app.task(backoff=0)
    async def order(ctx: Context, mark: str = "") -> list[str]:
        charged = await ctx.step("charge", say, f"charge{mark}")
        await say(f"outside{mark}")
        return [charged, await ctx.step("ship", say, f"ship{mark}")]

    @app.task
    async def later(ctx: Context) -> str:
        await ctx.sleep(timedelta(hours=1))
        return "done"

    @app.task(backoff=0)
    async def plain(mark: str) -> str:
        return await say(mark)

    @app.task(backoff=0, limit_key="{mark}", singleton="{mark}")
    async def keyed(mark: str) -> str:
        return await say(mark)

    @app.task(backoff=0)
    async def parent(ctx: Context, child: str) -> str:
        await ctx.wait_event("go")
        return str(await ctx.child(child, mark="born"))

    @app.tool
    async def add(a: int, b: int) -> int:
        return a + b

    @app.agent
    async def clerk(turn: Turn) -> int:
        return int(await turn.call_tool("add", a=1, b=2))

    return app


@pytest.mark.contract("R9")
async def test_what_is_due_is_done_and_what_is_not_waits_for_its_time(database_url: str, tmp_path: Path) -> None:
    app = story(tmp_path / "ledger")
    async with trial.opened(app, database_url) as given:
        order, later = await app.tasks.create("order"), await app.tasks.create("later")
        await app.agents.ensure("ada", "clerk")
        turn = await app.agents.send("ada", "add")
        await given.run()

        assert await order.result(timeout=PATIENCE_SECONDS) == ["charge", "ship"]
        assert await turn.result(timeout=PATIENCE_SECONDS) == 3
        assert not (await later.refresh()).finished_at
        await given.travel(hours=1, seconds=1)
        await given.run()
        assert await later.result(timeout=PATIENCE_SECONDS) == "done"
    assert app.settings.database_url == "postgresql://nowhere"


@pytest.mark.contract("R9")
@pytest.mark.parametrize(("seed", "place"), list(enumerate(SAID, 1)), ids=list(SAID))
async def test_steps_survive_a_death_at_every_place(database_url: str, tmp_path: Path, seed: int, place: str) -> None:
    app = story(tmp_path / "ledger")
    async with trial.opened(app, database_url, crashes=Crashes(seed, most=1)) as given:
        order = await app.tasks.create("order")
        await given.run(timeout=120)

        assert await order.result(timeout=PATIENCE_SECONDS) == ["charge", "ship"]
        assert given.deaths == 1
        said = (tmp_path / "ledger").read_text(encoding="utf-8").split()
        assert tuple(said.count(word) for word in WORDS) == SAID[place]


async def expect(app: Ferryman, child: str) -> Handle:
    """Create a parent whose event has come."""
    parent = await app.tasks.create("parent", {"child": child})
    await parent.send_event("go")
    return parent


@pytest.mark.contract("R9")
@pytest.mark.parametrize("child", ["plain", "keyed"])
async def test_waits_and_births_have_places_of_their_own(database_url: str, tmp_path: Path, child: str) -> None:
    app = story(tmp_path / "ledger")
    passed: list[str] = []
    async with trial.opened(app, database_url) as given:
        await expect(app, child)
        with faults.armed({name: partial(passed.append, name) for name in PLACES}):
            await given.run()

    assert [each for each in passed if each.startswith(("wait", "birth"))] == BEARING[1:5]
    # The child may begin, and even end, while its parent parks: the order of these is chance, and a park may be tried again.
    assert set(passed) == set(BEARING)


@pytest.mark.contract("R9")
async def test_a_sleep_has_places_before_and_after_its_hour(database_url: str, tmp_path: Path) -> None:
    app = story(tmp_path / "ledger")
    passed: list[str] = []
    async with trial.opened(app, database_url) as given:
        await app.tasks.create("later")
        with faults.armed({name: partial(passed.append, name) for name in PLACES}):
            await given.run()
            await given.travel(hours=1, seconds=1)
            await given.run()

    assert passed == SLEEPING


@pytest.mark.contract("R9", "T19")
@pytest.mark.parametrize("child", ["plain", "keyed"])
@pytest.mark.parametrize("place", ["wait.before", "wait.committed", "birth.inside", "birth.committed"])
async def test_a_child_is_born_once_whatever_dies_before(
    database_url: str, tmp_path: Path, child: str, place: str
) -> None:
    app, ledger = story(tmp_path / "ledger"), tmp_path / "ledger"
    async with trial.opened(app, database_url, crashes=Crashes(BEARING.index(place) + 1, most=1)) as given:
        parent = await expect(app, child)
        await given.run(timeout=120)

        assert await parent.result(timeout=PATIENCE_SECONDS) == "born"
        assert given.deaths == 1
        async with app.database.session() as tx:
            born = [row["name"] for row in await tx.fetch("select name from ferryman.tasks where name <> 'parent'")]
    assert (born, ledger.read_text(encoding="utf-8")) == ([child], "born\n")


@pytest.mark.contract("R9")
async def test_a_seed_beyond_the_last_place_does_not_pass_for_a_crash(database_url: str, tmp_path: Path) -> None:
    app, beyond = story(tmp_path / "ledger"), len(SAID) + 1

    async def carry_out() -> None:
        async with trial.opened(app, database_url, crashes=Crashes(beyond)) as given:
            order = await app.tasks.create("order")
            await given.run(timeout=120)
            assert await order.result(timeout=PATIENCE_SECONDS) == ["charge", "ship"]

    with pytest.raises(NobodyDied, match=f"Seed {beyond} killed nobody"):
        await carry_out()


async def lives(url: str, ledger: Path, seed: int) -> tuple[list[str], list[int]]:
    """Let several orders live through what a seed draws; return what they said, and how many attempts each needed."""
    app = story(ledger)
    async with trial.opened(app, url, crashes=Crashes(seed, most=1)) as given:
        orders = [await app.tasks.create("order", {"mark": f"{number}"}) for number in range(1, SEVERAL + 1)]
        await given.run(timeout=120)
        attempts = [(await order.refresh()).attempt for order in orders]
    return ledger.read_text(encoding="utf-8").split(), attempts


@pytest.mark.contract("R9")
@pytest.mark.parametrize("seed", STRIKING)
async def test_a_seed_strikes_the_same_place_again_where_several_tasks_run(
    cluster: Cluster, tmp_path: Path, seed: int
) -> None:
    async with cluster.database() as first, cluster.database() as second:
        once, again = await asyncio.gather(
            lives(first, tmp_path / "once", seed), lives(second, tmp_path / "again", seed)
        )

    struck, place = divmod(seed - 1, len(SAID))
    for said, _attempts in (once, again):
        # Whoever stands before the one that is struck has been done by then, and nobody behind it has begun.
        before = [f"{word}{number + 1}" for number in range(struck) for word in WORDS]
        assert said[: len(before)] == before
        counts = [tuple(said.count(f"{word}{number + 1}") for word in WORDS) for number in range(SEVERAL)]
        assert counts.pop(struck) == list(SAID.values())[place]
        assert counts == [(1, 1, 1)] * (SEVERAL - 1)


@pytest.mark.contract("R9")
async def test_a_seed_beyond_the_last_place_of_several_tasks_kills_nobody(database_url: str, tmp_path: Path) -> None:
    with pytest.raises(NobodyDied):
        await lives(database_url, tmp_path / "beyond", len(SEEDS) + 1)


@pytest.mark.contract("R9")
def test_one_seed_draws_the_same_deaths_and_a_row_of_seeds_meets_every_place() -> None:
    assert Crashes(7).lives() == Crashes(7).lives()
    assert [Crashes(seed).lives()[0] for seed in range(1, 9)] == list(range(1, 9))
    assert all(Crashes(seed).lives()[-1] == 0 for seed in range(50))
    assert {len(Crashes(seed).lives()) for seed in range(50)} == {2, 3, 4}


@pytest.mark.contract("R9")
def test_a_killed_test_takes_the_worker_of_its_trial_with_it(database_url: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, database_url], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE, text=True,
    ) as owner:  # fmt: skip
        assert owner.stdout is not None
        worker = psutil.Process(int(owner.stdout.readline()))
        assert worker.ppid() == owner.pid
        owner.kill()
    try:
        worker.wait(timeout=60.0)
    finally:
        if worker.is_running():
            worker.kill()


@pytest.mark.contract("R9")
async def test_a_closed_trial_leaves_its_app_closed(database_url: str, tmp_path: Path) -> None:
    app = story(tmp_path / "ledger")
    async with trial.opened(app, database_url):
        pass

    with pytest.raises(errors.NotOpen):
        _ = app.tasks


@pytest.mark.contract("R9", "I6")
@pytest.mark.parametrize("seed", range(1, 9))
async def test_a_window_is_read_whole_and_once_although_its_executor_dies(database_url: str, seed: int) -> None:
    app = Ferryman("postgresql://nowhere")
    app.source(Server().fill(25), name=SOURCE, sink=hold(), safety_lag=timedelta(0))
    async with trial.opened(app, database_url, crashes=Crashes(seed, most=1)) as given:
        await prepare(app.database)
        planned = await app.ingest.plan(SOURCE, since=DAWN, until=DAWN + HOUR, params={"step_seconds": 3600})
        await given.run(timeout=120)
        assert planned.id is not None
        told = await app.ingest.wait(planned.id, timeout=PATIENCE_SECONDS)
        async with app.database.session() as tx:
            written = [(row["id"], row["writes"]) for row in await tx.fetch("select id, writes from cargo order by id")]

    assert (told.share, given.deaths) == (1.0, 1)
    assert written == [(n, 1) for n in range(25)]
