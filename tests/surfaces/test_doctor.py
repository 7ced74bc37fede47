"""`ferryman doctor`."""

import asyncio
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import pytest

from ferryman import Ferryman
from ferryman.app import wiring
from ferryman.app.doctor import work
from ferryman.app.doctor.ground import between, durable, isolated, version
from ferryman.kernel import watchdog
from ferryman.kernel.pool import Database
from ferryman.testing import travel
from tests.surfaces import ferry


def readings(ran: ferry.Ran) -> dict[str, Any]:
    return {each["name"]: each for each in ran.json["readings"]}


@pytest.mark.contract("W21", "K23")
async def test_a_database_with_a_worker_is_healthy(database_url: str) -> None:
    with ferry.worker(url=database_url):
        ran = ferry.run("doctor", "--json", url=database_url)
        told = ferry.run("doctor", "--quick", url=database_url)

    assert ran.code == 0, ran.out
    assert ran.json["healthy"] is True
    assert "bad" not in {each["verdict"] for each in ran.json["readings"]}
    assert f"All {len(wiring.invariants())} that were checked hold." in readings(ran)["invariants"]["says"]
    assert told.out.rstrip().endswith("Healthy.")
    assert "deep ones were left out" in told.out


@pytest.mark.contract("W21")
async def test_every_live_object_is_listed_with_the_rule_that_ends_it(database_url: str) -> None:
    async with Ferryman(database_url) as app:
        waiting = await app.tasks.create("greet", {})
        ran = ferry.run("doctor", "--all", "--json", url=database_url)

    live = ran.json["live"]
    assert [(each["id"], each["state"], each["rule"]) for each in live] == [(str(waiting.id), "ready", "T21")]
    assert live[0]["ends_by"] < live[0]["terminal_by"]
    assert readings(ran)["bounds"]["details"][0]["count"] == 1


async def test_work_that_nobody_takes_is_a_finding(database_url: str) -> None:
    async with Ferryman(database_url) as app:
        await app.tasks.create("unheard_of", {})
        await app.tasks.create("greet", {}, queue="far")
        with ferry.worker(url=database_url):
            ran = ferry.run("doctor", "--json", url=database_url)

    found = readings(ran)["handlers"]
    assert ran.code == 1
    assert found["verdict"] == "bad"
    assert {(each["queue"], each["name"]) for each in found["details"]} == {("default", "unheard_of"), ("far", "greet")}
    assert "--queues far" in found["advice"]


@pytest.mark.contract("W21", "K24")
async def test_a_tick_and_a_grace_of_a_clock_that_was_set_back_are_told_as_nobody_watching(db: Database) -> None:
    async with db.session() as tx:
        await tx.fetch(
            "update ferryman.watchdog"
            " set ticked_at = clock_timestamp() + $1::interval, grace_until = clock_timestamp() + $1::interval",
            timedelta(hours=1),
        )
        [silent] = await work.watchdog(tx, interval=watchdog.INTERVAL)
        await tx.fetch(
            "update ferryman.watchdog set ticked_at = clock_timestamp() + interval '5 s', grace_until = '-infinity'"
        )
        [watched] = await work.watchdog(tx, interval=watchdog.INTERVAL)

    assert silent.says == "No watchdog has ticked since the clock was set back; nothing is live that would need one."
    assert (watched.verdict, watched.says) == ("good", "It ticked 0 s ago.")


async def test_work_without_a_worker_is_a_finding_and_none_without_work_is_not(database_url: str) -> None:
    idle = ferry.run("doctor", "--json", url=database_url)
    async with Ferryman(database_url) as app:
        await app.tasks.create("greet", {})
    waiting = ferry.run("doctor", "--json", url=database_url)

    assert idle.code == 0
    assert readings(idle)["workers"]["verdict"] == "note"
    assert waiting.code == 1
    assert readings(waiting)["workers"]["verdict"] == "bad"


@pytest.mark.contract("K14")
async def test_a_moved_clock_is_a_finding(db: Database, database_url: str) -> None:
    async with db.session() as tx:
        await travel(tx, timedelta(hours=1))

    ran = ferry.run("doctor", url=database_url)

    assert ran.code == 1
    assert "The clock of this database is moved by 1:00:00." in ran.out


@pytest.mark.contract("K21", "K23")
async def test_what_no_rule_ended_in_time_is_a_finding(db: Database, database_url: str) -> None:
    async with Ferryman(database_url) as app:
        await app.tasks.create("greet", {})
    async with db.session() as tx:
        await travel(tx, timedelta(days=31))
        await tx.fetch("insert into ferryman.settings (name, value) values ('watchdog.interval_seconds', '5')")
        await tx.fetch("update ferryman.watchdog set ticked_at = clock_timestamp() - interval '1 hour'")
        unwatched = ferry.run("doctor", "--json", url=database_url)
    watched = await _while_a_watchdog_ticks(db, database_url)

    assert [ran.code for ran in (unwatched, watched)] == [1, 1]
    assert [readings(ran)["overdue"]["verdict"] for ran in (unwatched, watched)] == ["bad", "bad"]
    assert "defect" not in unwatched.out
    assert "Start a worker" in readings(unwatched)["overdue"]["advice"]
    assert "defect of ours" in readings(watched)["overdue"]["advice"]
    assert "nothing_is_overdue" in readings(watched)["invariants"]["says"]


async def _while_a_watchdog_ticks(db: Database, url: str) -> ferry.Ran:
    """Run the doctor beside a watchdog that has no rules."""

    async def tick() -> None:
        while True:
            async with db.session() as tx:
                await tx.fetch("update ferryman.watchdog set ticked_at = clock_timestamp()")
            await asyncio.sleep(0.5)

    ticking = asyncio.create_task(tick())
    try:
        return await asyncio.to_thread(ferry.run, "doctor", "--json", url=url)
    finally:
        ticking.cancel()


@pytest.mark.contract("W21", "K23")
async def test_a_database_on_which_no_worker_has_started_yet_is_told_as_just_that(
    database_url: str, db: Database
) -> None:
    idle = ferry.run("doctor", "--json", url=database_url)
    async with Ferryman(database_url) as app:
        await app.tasks.create("greet", {})
        await app.schedules.create("greet", {}, every=60)
    async with db.session() as tx:
        await travel(tx, timedelta(days=31))
        await tx.fetch("update ferryman.watchdog set ticked_at = clock_timestamp() - interval '31 days'")
    waiting = ferry.run("doctor", "--json", url=database_url)

    bad = [each for each in waiting.json["readings"] if each["verdict"] == "bad" and each["name"] != "clock"]
    assert (idle.code, readings(idle)["workers"]["verdict"]) == (0, "note")
    assert (waiting.code, [each["name"] for each in bad]) == (1, ["workers"])
    for ran in (idle, waiting):
        assert "migrated; no worker has started yet" in readings(ran)["workers"]["says"]
        assert "ferryman worker --app" in readings(ran)["workers"]["advice"]
        assert "defect" not in ran.out
        assert {"overdue", "watchdog", "handlers"}.isdisjoint(readings(ran))


@pytest.mark.contract("T20")
async def test_finished_tasks_that_nobody_deletes_are_a_finding(db: Database, database_url: str) -> None:
    async with Ferryman(database_url) as app:
        gone = await app.tasks.create("greet", {})
        await gone.cancel()
    readings_at = {}
    for day, travelled in ((6, 6), (7, 1), (9, 2)):
        async with db.session() as tx:
            await travel(tx, timedelta(days=travelled, minutes=1))
        readings_at[day] = readings(ferry.run("doctor", "--quick", "--json", url=database_url))["retention"]

    assert [each["verdict"] for each in readings_at.values()] == ["good", "note", "bad"]
    assert "tasks 7d, failed ones 30d, turns 30d, batches 30d" in readings_at[6]["says"]
    assert "1 task past their keeping" in readings_at[9]["says"]


async def test_workers_that_disagree_are_a_finding(database_url: str) -> None:
    with ferry.worker("--lease", "5s", url=database_url), ferry.worker("--lease", "6s", url=database_url):
        ran = ferry.run("doctor", "--json", url=database_url)

    assert ran.code == 1
    assert "lease_seconds: 5.0" in readings(ran)["agreement"]["says"]


def test_a_database_that_was_never_migrated_is_a_finding(empty_database_url: str) -> None:
    ran = ferry.run("doctor", url=empty_database_url)

    assert ran.code == 1
    assert "Run `ferryman migrate`." in ran.out


def test_a_database_that_cannot_be_reached_has_a_code_of_its_own() -> None:
    ran = ferry.run("doctor", "--json", url="postgresql://nobody@127.0.0.1:1/nowhere")

    assert ran.code == 3
    assert ran.json["reachable"] is False
    assert ran.json["readings"][0]["verdict"] == "bad"


def test_a_pooler_is_named_with_what_it_asks_of_us() -> None:
    moved = between(settings_taken=True, moved=True, refused=False)
    deaf = between(settings_taken=False, moved=False, refused=True)
    silent = between(settings_taken=False, moved=True, refused=False)

    assert {moved.verdict, deaf.verdict} == {"note"}
    assert "1.21" in moved.advice
    assert "FERRYMAN_LISTEN_URL" in deaf.advice
    assert (silent.verdict, "ignore_startup_parameters" in silent.advice) == ("bad", True)


@pytest.mark.contract("K16", "K24")
async def test_another_default_isolation_level_is_a_note_that_says_what_it_means(
    database_url: str, db: Database
) -> None:
    async with db.session() as session:
        name = urlsplit(database_url).path.removeprefix("/")
        await session.execute(f"alter database {name} set default_transaction_isolation = 'serializable'")

    found = readings(ferry.run("doctor", "--quick", "--json", url=database_url))["isolation"]

    assert found["verdict"] == "note"
    assert "default isolation level is serializable" in found["says"]
    assert "run it again" in found["advice"]
    assert isolated("read committed", default="read committed").verdict == "good"
    assert isolated("serializable", default="serializable").verdict == "bad"


@pytest.mark.contract("K24")
async def test_a_database_that_takes_no_writes_is_a_finding(database_url: str, db: Database) -> None:
    async with db.session() as session:
        name = urlsplit(database_url).path.removeprefix("/")
        await session.execute(f"alter database {name} set default_transaction_read_only = on")

    ran = ferry.run("doctor", "--quick", "--json", url=database_url)

    found = readings(ran)["privileges"]
    assert (ran.code, found["verdict"]) == (1, "bad")
    assert "read-only" in found["says"]


def test_a_server_older_than_15_is_a_finding() -> None:
    assert version(140012, "14.12").verdict == "bad"
    assert version(150000, "15.0").verdict == "good"


@pytest.mark.contract("K1")
def test_commits_that_a_crash_can_lose_are_a_finding() -> None:
    assert durable("off", "on").verdict == "bad"
    assert durable("on", "off").verdict == "note"
    assert durable("on", "on").verdict == "good"
    assert durable("remote_apply", "on", "ANY 1 (*)").verdict == "good"


@pytest.mark.contract("K1")
def test_whether_commits_wait_for_a_standby_is_told() -> None:
    said = [durable(setting, "on", "paris").says for setting in ("local", "on", "remote_apply")]
    alone = durable("remote_apply", "on", "")

    assert said == [
        "What is told done is on the disk.",
        "What is told done is on the disk here and at a standby.",
        "What is told done is on the disk here, and shown by a standby.",
    ]
    assert (alone.verdict, "synchronous_standby_names" in alone.advice) == ("note", True)


@pytest.mark.contract("K10", "W21")
async def test_a_reader_of_the_log_that_is_far_behind_is_a_finding(database_url: str, db: Database) -> None:
    async with db.transaction() as tx:
        await tx.fetch("insert into ferryman.consumers (name, last_id) values ('gone', 0)")
        await tx.fetch(
            "insert into ferryman.events (at, subject, tenant, kind, logged_at)"
            " values (now(), gen_random_uuid(), 'default', 'task', now() - interval '25 hours')"
        )
    behind = ferry.run("doctor", "--json", url=database_url)
    ferry.run("relay", "forget", "gone", url=database_url)
    forgotten = ferry.run("doctor", "--json", url=database_url)

    assert readings(behind)["relays"]["verdict"] == "bad"
    assert "gone is 1 events behind" in readings(behind)["relays"]["says"]
    assert readings(forgotten)["relays"]["verdict"] == "good"
