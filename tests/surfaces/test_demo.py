"""`ferryman demo`."""

import shutil
import signal
from pathlib import Path

import psutil
import pytest

from ferryman import Ferryman
from ferryman.app.embedded import place as embedded
from ferryman.cli import exits
from ferryman.cli.demo import ground, story
from ferryman.cli.demo.depot import PARCELS, STORMS
from ferryman.cli.demo.hands import Hands
from ferryman.cli.demo.stage import Stage
from ferryman.cli.demo.tale import Tale
from ferryman.cli.screen import Screen
from ferryman.kernel import errors
from ferryman.kernel.pool import Database, Line
from ferryman.kernel.settings import Settings
from tests.patience import PATIENCE_SECONDS
from tests.surfaces import ferry

# The story itself ends in under a minute; a machine that runs other tests beside it may take longer.
STORY_SECONDS = 220.0


def left_behind(url: str) -> list[psutil.Process]:
    """Find processes that work on this database and are no children of the test's."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("FERRYMAN_DATABASE_URL") == url:
                found.append(process)
        except psutil.Error:
            continue
    return found


@pytest.mark.contract("S1", "K17", "K4", "K16", "T11", "T17", "T19", "C11", "B3", "I6", "I9")
async def test_the_story_holds_and_leaves_nothing_behind(db: Database, database_url: str) -> None:
    ran = ferry.run("demo", "--json", url=database_url, patience=STORY_SECONDS)

    assert ran.code == 0, ran.err
    assert ran.json["broken"] == []
    assert ran.json["healthy"] is True
    assert ran.json["states"] == {"cancelled": 1, "failed": 1, "succeeded": 10_087 + ran.json["fired_tasks"]}
    assert ran.json["fired_tasks"] >= 30
    assert ran.json["most_at_once"] == 3
    assert (ran.json["steps"], ran.json["step_calls"]) == (5, 5)
    assert ran.json["fenced"] >= 1
    assert ran.json["commands"] == {"completed": 2}
    assert ran.json["batches"] == {"failed": 1, "partial": 1}
    assert set(ran.json["slices"]) == {"succeeded"}
    assert ran.json["parcels"] == ran.json["parcels_there"] == ran.json["records"] == len(PARCELS)
    assert ran.json["refusals"] >= len(STORMS)
    assert ran.json["breakdowns"] >= 1
    assert ran.json["live"] == 0
    assert ran.json["lost_leases"] >= 3  # of two that were killed and one that was frozen; a slow machine may lose more
    assert left_behind(database_url) == []
    async with db.session() as tx:
        schemas = await tx.fetch("select nspname from pg_namespace where nspname like 'ferryman_demo%'")
    assert list(schemas) == []


def test_a_story_that_is_interrupted_leaves_nothing_behind(database_url: str) -> None:
    with ferry.running("demo", url=database_url) as demo:
        ferry.read_until(demo.stdout, "worker processes are there")
        demo.send_signal(signal.SIGINT)

        assert demo.wait(PATIENCE_SECONDS) == 130

    assert left_behind(database_url) == []


async def schemas(url: str) -> set[str]:
    line = Line(url)
    try:
        return {row["nspname"] for row in await line.fetch("select nspname::text from pg_namespace")}
    finally:
        await line.close()


@pytest.mark.contract("S1")
async def test_on_a_server_of_the_users_it_leaves_a_schema_only_if_asked_to(database_url: str) -> None:
    tale = Tale(Screen())
    async with ground.fresh(database_url, tale, keep=False) as place:
        await Ferryman(settings=Settings.load(place.overrides, environ={})).migrate()
        before = await schemas(database_url)
    async with ground.fresh(database_url, tale, keep=True) as kept:
        await Ferryman(settings=Settings.load(kept.overrides, environ={})).migrate()

    assert place.schema in before
    assert place.schema not in await schemas(database_url)
    assert (await ground.left(database_url)).schema == kept.schema
    async with ground.fresh(database_url, tale, keep=True):
        assert kept.schema not in await schemas(database_url)


@pytest.mark.contract("S1")
async def test_what_the_embedded_server_holds_stays_until_the_next_telling_and_nobody_loses_it_underfoot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    tale = Tale(Screen())
    try:
        async with ground.fresh(None, tale, keep=False) as place:
            line = Line(place.url)
            await line.fetch("create schema ferryman")
            with pytest.raises(errors.UsageInvalid, match="Somebody works on the data"):
                async with ground.fresh(None, tale, keep=False):
                    raise AssertionError("it took the ground from under somebody's feet")
            await line.close()
            assert "ferryman" in await schemas(place.url)
        async with ground.fresh(None, tale, keep=False) as place:
            assert "ferryman" not in await schemas(place.url)
    finally:
        for made in embedded.lodge(tmp_path / ground.FOLDER).made():
            shutil.rmtree(made, ignore_errors=True)


async def test_an_act_that_breaks_off_is_the_last_and_the_story_fails(capsys: pytest.CaptureFixture[str]) -> None:
    played = []

    async def late(stage: Stage) -> None:
        played.append("late")
        raise TimeoutError

    async def refused(stage: Stage) -> None:
        played.append("refused")
        raise errors.TaskNotFound("There is no such task.")

    tale = Tale(Screen())
    for acts in ([late, refused], [refused, late]):
        await story.play(Stage(Ferryman(), Hands("", ""), tale), acts)

    assert played == ["late", "refused"]
    assert tale.broken[0] == "late broke off: it took too long"
    assert tale.broken[1].startswith("refused broke off: There is no such task.")
    assert tale.verdict() == exits.FAILED
    assert "2 did not hold:" in capsys.readouterr().out


def test_a_long_line_goes_on_under_its_own_beginning(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")

    Tale(Screen()).hold(True, "the river is wide and the boat is well-made")

    first, second = capsys.readouterr().out.splitlines()
    assert first.endswith(" s  ok  the river is wide and")
    assert second == " " * 16 + "the boat is well-made"
