"""`ferryman schedule`."""

import os
import subprocess
import sys

import pytest

from tests.surfaces import ferry

STRANGER = "01900000-0000-7000-8000-000000000000"


@pytest.fixture
def url(database_url: str) -> str:
    return database_url


@pytest.mark.contract("S3", "T10")
def test_a_schedule_can_be_created_shown_paused_triggered_and_deleted(url: str) -> None:
    created = ferry.run(
        "schedule", "create", "greet", '{"name": "Ada"}', "--cron", "0 8 1 jan *", "--timezone", "Europe/Berlin",
        "--id", "morning", "--queue", "mail", "--json", url=url,
    )  # fmt: skip
    listed = ferry.run("schedule", "list", "--json", url=url)
    following = ferry.run("schedule", "next", "morning", "--count", "3", "--json", url=url)
    paused = ferry.run("schedule", "pause", "morning", "--reason", "holidays", "--json", url=url)
    again = ferry.run("schedule", "pause", "morning", url=url)
    triggered = ferry.run("schedule", "trigger", "morning", "--json", url=url)
    resumed = ferry.run("schedule", "resume", "morning", "--json", url=url)
    shown = ferry.run("schedule", "show", "morning", "--json", url=url)
    deleted = ferry.run("schedule", "delete", "morning", "--json", url=url)

    assert created.json["idempotent_hit"] is False
    assert created.json["task"]["task_id"] == "morning"
    assert [each["schedule_id"] for each in listed.json["schedules"]] == ["morning"]
    assert len(following.json["next"]) == 3
    assert (paused.json["moved"], paused.json["schedule"]["state"]) == (True, "paused")
    assert "was paused already" in again.out
    assert triggered.json["task"]["queue"] == "mail"
    assert resumed.json["schedule"]["next_run_at"] == following.json["next"][0]
    assert shown.json["schedule"]["payload"] == {"name": "Ada"}
    assert [each["id"] for each in shown.json["firings"]] == [triggered.json["task"]["id"]]
    assert [event["type"] for event in shown.json["events"]] == [
        "schedule_created", "schedule_state_changed", "schedule_fired", "schedule_state_changed",
    ]  # fmt: skip
    assert deleted.json["schedule"]["state"] == "ended"


@pytest.mark.contract("S3")
def test_people_get_tables(url: str) -> None:
    ferry.run("schedule", "create", "greet", "--every", "15m", "--id", "often", url=url)
    ferry.run("schedule", "create", "greet", "--daily", "08:30", "--timezone", "Asia/Tokyo", "--id", "daily", url=url)
    ferry.run("schedule", "trigger", "often", url=url)

    listed = ferry.run("schedule", "list", url=url)
    shown = ferry.run("schedule", "show", "daily", url=url)
    events = ferry.run("events", "--last", "9", url=url)

    assert "every 15m" in listed.out
    assert "30 8 * * * Asia/Tokyo" in listed.out
    assert "08:30 JST" in shown.out
    assert "often  fired 1" in events.out


@pytest.mark.contract("T8", "T12")
def test_a_whole_request_makes_what_it_asks_for(url: str) -> None:
    asked = '{"task_id": "s", "name": "greet", "schedule_type": "every", "interval": "1h", "idempotency_key": "k"}'
    first = ferry.run("task", "create", "--request", "-", "--json", url=url, given=asked)
    again = ferry.run("schedule", "create", "--request", "-", "--json", url=url, given=asked)
    other = ferry.run("schedule", "create", "greet", "--every", "2h", "--key", "k", url=url)

    assert (first.json["idempotent_hit"], again.json["idempotent_hit"]) == (False, True)
    assert first.json["task"]["id"] == again.json["task"]["id"]
    assert other.code == 5
    assert other.err.startswith("TASK_DUPLICATE: ")
    assert "interval" in other.err


@pytest.mark.parametrize("verb", ["show", "next", "pause", "resume", "trigger", "delete"])
def test_an_unknown_schedule_is_not_found(verb: str, url: str) -> None:
    ran = ferry.run("schedule", verb, STRANGER, url=url)

    assert (ran.code, ran.out) == (4, "")
    assert ran.err.startswith("SCHEDULE_NOT_FOUND: ")


@pytest.mark.contract("K20", "S3")
def test_what_is_in_the_way_is_a_conflict(url: str) -> None:
    ferry.run("schedule", "create", "greet", "--every", "1h", "--overlap", "skip", "--id", "s", url=url)
    ferry.run("schedule", "trigger", "s", url=url)
    busy = ferry.run("schedule", "trigger", "s", url=url)
    ferry.run("schedule", "delete", "s", url=url)
    gone = ferry.run("schedule", "resume", "s", url=url)

    assert (busy.code, busy.err.split(":")[0]) == (5, "SCHEDULE_BUSY")
    assert (gone.code, gone.err.split(":")[0]) == (5, "SCHEDULE_INVALID_TRANSITION")


@pytest.mark.contract("K20", "T8")
@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("create", "greet"), "--cron, --daily and --every"),
        (("create", "greet", "--cron", "* * * * *", "--every", "5m"), "--cron, --daily and --every"),
        (("create", "--every", "5m"), "Name the handler"),
        (("create", "greet", "--cron", "0 8 * *"), "five fields"),
        (("create", "greet", "--cron", "0 0 30 2 *"), "never fires"),
        (("create", "greet", "--cron", "0 8 * * *", "--timezone", "Europe/Berln"), "did you mean Europe/Berlin?"),
        (("create", "greet", "--every", "0"), "interval"),
        (("create", "greet", "--every", "5m", "--timezone", "UTC"), "timezone"),
        (("create", "greet", "--daily", "25:00"), "time_of_day"),
        (("create", "greet", "--every", "5m", "--catch-up", "some"), "--catch-up"),
        (("create", "greet", "--request", "{}"), "one too many"),
        (("create", "--request", "[]"), "JSON object"),
        (("list", "--state", "gone"), "state"),
        (("list", "--before", "x"), "--before"),
        (("next", "s", "--count", "0"), "count"),
        (("show", "a b"), "schedule_id"),
    ],
    ids=ascii,
)
def test_what_cannot_be_asked_is_one_sentence(url: str, arguments: tuple[str, ...], told: str) -> None:
    if arguments[0] == "next":
        ferry.run("schedule", "create", "greet", "--every", "5m", "--id", "s", url=url)

    ran = ferry.run("schedule", *arguments, url=url)

    assert (ran.code, ran.out) == (2, "")
    assert told in ran.err
    assert ran.err.count("\n") == 1


@pytest.mark.contract("T10")
def test_a_machine_without_time_zones_of_its_own_knows_them_all_the_same() -> None:
    asked = "from ferryman.tasks.rules import rhythm; print(rhythm.zone('Europe/Berlin').key, rhythm.zone('UTC').key)"
    said = subprocess.run(
        [sys.executable, "-c", asked], env={**os.environ, "PYTHONTZPATH": "", "PYTHONPATH": str(ferry.SOURCE)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip

    assert said.stdout == "Europe/Berlin UTC\n"
