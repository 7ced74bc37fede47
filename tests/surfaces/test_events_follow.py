"""`ferryman events`."""

import json
import signal

import pytest

from ferryman import Ferryman
from tests.patience import PATIENCE_SECONDS
from tests.sql import days
from tests.sql.going_back import go_back
from tests.surfaces import ferry


@pytest.mark.contract("T13")
async def test_following_gives_each_event_as_it_commits_and_ends_with_its_reader(database_url: str) -> None:
    async with Ferryman(database_url) as app:
        await app.tasks.create("greet", {}, task_id="before")
        with ferry.running("events", "--follow", "--last", "1", "--json", url=database_url) as following:
            assert json.loads(following.stdout.readline())["payload"]["task_id"] == "before"
            await app.tasks.create("greet", {}, task_id="mine")
            envelope = json.loads(following.stdout.readline())
            following.stdout.close()

            assert following.wait(PATIENCE_SECONDS) == 0
            assert following.stderr.read() == ""

    assert envelope["type"] == "task_created"
    assert envelope["source"] == "gateway.scheduler"
    assert envelope["payload"]["task_id"] == "mine"


async def test_an_interrupt_is_how_following_ends(database_url: str) -> None:
    async with Ferryman(database_url) as app:
        await app.tasks.create("greet", {})
    with ferry.running("events", "--follow", "--last", "1", url=database_url) as following:
        ferry.read_until(following.stdout, "created ready")
        following.send_signal(signal.SIGINT)

        assert following.wait(PATIENCE_SECONDS) == 0


@pytest.mark.contract("K10")
async def test_going_on_after_an_event_skips_nothing_and_repeats_nothing(database_url: str) -> None:
    async with Ferryman(database_url) as app:
        await app.tasks.create_many("greet", [{}] * 5)
    first = ferry.run("events", "--last", "3", "--json", url=database_url).out.splitlines()
    everything = ferry.run("events", "--after", "0", "--json", url=database_url).out.splitlines()
    middle = json.loads(everything[2])["event_id"]
    rest = ferry.run("events", "--after", middle, "--json", url=database_url).out.splitlines()

    assert len(everything) == 5
    assert first == everything[2:]
    assert rest == everything[3:]


@pytest.mark.contract("K10", "S3")
async def test_going_on_from_before_what_is_kept_tells_of_the_gap(database_url: str) -> None:
    async with Ferryman(database_url) as app:
        await app.tasks.create_many("greet", [{}] * 3)
        await days.drop_the_first(database_url)
        await app.tasks.create("greet", {}, task_id="later")
    told = ferry.run("events", "--after", "1", url=database_url)
    lines = ferry.run("events", "--after", "evt_1", "--json", url=database_url)
    nothing_missed = ferry.run("events", "--after", "3", url=database_url)
    ahead = ferry.run("events", "--after", "77", url=database_url)

    gap = {"type": "gap", "from": "evt_2", "to": "evt_3", "reason": "dropped", "resume": "evt_3"}
    first, second = map(json.loads, lines.out.splitlines())
    assert (first, second["payload"]["task_id"]) == (gap, "later")
    assert "evt_2 to evt_3 are not kept any more" in told.err
    assert ["evt_4-" in each for each in told.out.splitlines()] == [True]
    assert (nothing_missed.err, len(nothing_missed.out.splitlines())) == ("", 1)
    assert (ahead.code, ahead.out) == (0, "")
    assert "evt_77 has not happened here: the log ends before it. Resuming after evt_4." in ahead.err


@pytest.mark.contract("K10", "S3")
async def test_going_on_after_an_event_of_a_lost_history_tells_of_the_gap(database_url: str) -> None:
    async with Ferryman(database_url) as app:
        await app.tasks.create_many("greet", [{}] * 3)
    seen = json.loads(ferry.run("events", "--last", "1", "--json", url=database_url).out)["event_id"]
    await go_back(database_url, to=1)
    async with Ferryman(database_url) as app:
        for name in ("x", "y", "z"):
            await app.tasks.create("greet", {}, task_id=name)
    lines = ferry.run("events", "--after", seen, "--json", url=database_url).out.splitlines()
    text = ferry.run("events", "--after", seen, url=database_url)
    beyond = ferry.run("events", "--after", "9999", "--json", url=database_url).out.splitlines()

    gap, *rest = map(json.loads, lines)
    assert gap == {"type": "gap", "from": "evt_1", "to": "evt_3", "reason": "other_history", "resume": "evt_0"}
    assert [each["payload"]["task_id"] for each in rest[1:]] == ["x", "y", "z"]
    assert (
        "evt_3 is another event here: the log went back after a failover or a restore. Resuming after evt_0."
        in text.err
    )
    assert [json.loads(each) for each in beyond] == [
        {"type": "gap", "from": "evt_5", "to": "evt_9999", "reason": "beyond_end", "resume": "evt_4"}
    ]


async def test_the_events_of_one_task_or_one_tenant_only(database_url: str) -> None:
    async with Ferryman(database_url) as app, Ferryman(database_url, tenant="other") as others:
        await app.tasks.create("greet", {}, task_id="a")
        await app.tasks.create("greet", {}, task_id="b")
        await others.tasks.create("greet", {}, task_id="c")
    of_one = ferry.run("events", "--task", "a", url=database_url).out.splitlines()
    of_tenant = ferry.run("events", "--tenant", "other", url=database_url).out.splitlines()
    of_all = ferry.run("events", "--all-tenants", url=database_url).out.splitlines()

    assert [len(of_one), len(of_tenant), len(of_all)] == [1, 1, 3]
    assert "  c  created ready" in of_tenant[0]
