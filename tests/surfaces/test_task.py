"""`ferryman task`."""

import pytest

from ferryman import Ferryman
from tests.patience import PATIENCE_SECONDS
from tests.surfaces import ferry

STRANGER = "01900000-0000-7000-8000-000000000000"


@pytest.fixture
def url(database_url: str) -> str:
    return database_url


def test_a_task_can_be_created_shown_and_cancelled(url: str) -> None:
    created = ferry.run(
        "task", "create", "greet", '{"name": "Ada"}', "--id", "one", "--queue", "mail", "--json", url=url
    )
    shown = ferry.run("task", "show", "one", "--json", url=url)
    cancelled = ferry.run("task", "cancel", "one", "--reason", "not wanted", "--json", url=url)
    after = ferry.run("task", "show", "one", "--json", url=url).json

    assert created.json["idempotent_hit"] is False
    assert shown.json["task"]["payload"] == {"name": "Ada"}
    assert shown.json["task"]["queue"] == "mail"
    assert shown.json["ends_by"]["rule"] == "T21"
    assert cancelled.json["cancelled"] == [created.json["task"]["id"]]
    assert after["task"]["state"] == "cancelled"
    assert [event["payload"]["to_state"] for event in after["events"]] == ["ready", "cancelled"]
    assert after["ends_by"] is None


def test_people_get_a_table_and_programs_nothing_but_json(url: str) -> None:
    ferry.run("task", "create", "greet", url=url)

    assert "greet" in ferry.run("task", "list", url=url).out
    assert [task["name"] for task in ferry.run("task", "list", "--json", url=url).json["tasks"]] == ["greet"]


def test_a_payload_comes_from_a_file_or_from_stdin(url: str) -> None:
    piped = ferry.run("task", "create", "greet", "-", "--id", "piped", "--json", url=url, given='{"name": "pipe"}')
    asked = ferry.run("task", "create", "--request", "-", "--json", url=url, given='{"name": "greet", "payload": [1]}')

    assert piped.code == asked.code == 0
    assert ferry.run("task", "show", "piped", "--json", url=url).json["task"]["payload"] == {"name": "pipe"}


@pytest.mark.contract("T12")
def test_the_same_key_answers_with_what_exists_or_is_a_conflict(url: str) -> None:
    first = ferry.run("task", "create", "greet", "--key", "k", "--json", url=url)
    again = ferry.run("task", "create", "greet", "--key", "k", "--json", url=url)
    other = ferry.run("task", "create", "greet", "--key", "k", "--retries", "9", url=url)

    assert again.json["idempotent_hit"] is True
    assert again.json["task"]["id"] == first.json["task"]["id"]
    assert other.code == 5
    assert other.err.startswith("TASK_DUPLICATE: ")
    assert "max_retries" in other.err


def test_a_task_for_later_waits_for_its_time(url: str) -> None:
    later = ferry.run("task", "create", "greet", "--at", "+1h", "--json", url=url).json["task"]
    naive = ferry.run("task", "create", "greet", "--at", "2030-01-01T00:00:00", url=url)

    assert later["state"] == "pending"
    assert naive.code == 2
    assert "UTC offset" in naive.err


def test_without_an_app_a_create_says_whose_defaults_hold(url: str) -> None:
    made = ferry.run("task", "create", "greet", "--key", "k", url=url)
    hit = ferry.run("task", "create", "greet", "--key", "k", url=url)
    told = ferry.run("task", "create", "--help", url=url)

    assert "Without --app" in made.err
    assert "Without --app" not in made.out + hit.err
    assert "without it the settings' defaults" in " ".join(told.out.replace("│", " ").split())


@pytest.mark.parametrize("verb", ["show", "wait", "result", "logs", "cancel"])
def test_an_unknown_task_is_not_found(verb: str, url: str) -> None:
    ran = ferry.run("task", verb, STRANGER, url=url)

    assert (ran.code, ran.out) == (4, "")
    assert ran.err.startswith("TASK_NOT_FOUND: ")


@pytest.mark.contract("T19")
def test_an_event_can_be_sent_to_a_task_that_has_not_ended(url: str) -> None:
    ferry.run("task", "create", "greet", "--id", "one", url=url)
    sent = ferry.run("task", "event", "one", "approval", '{"by": "Ada"}', "--json", url=url)
    told = ferry.run("task", "event", "one", "approval", url=url)
    wrong = ferry.run("task", "event", "one", "two words", url=url)
    unread = ferry.run("task", "event", "one", "approval", "{by", url=url)
    ferry.run("task", "cancel", "one", url=url)
    late = ferry.run("task", "event", "one", "approval", url=url)
    nobody = ferry.run("task", "event", STRANGER, "approval", url=url)

    assert (sent.json["task_id"], sent.json["name"]) == ("one", "approval")
    assert told.out == "one  approval sent\n"
    assert (wrong.code, unread.code, late.code, nobody.code) == (2, 2, 5, 4)
    assert late.err.startswith("TASK_ENDED: The task one has ended (cancelled)")


def test_no_tenant_sees_the_tasks_of_another(url: str) -> None:
    ferry.run("task", "create", "greet", "--id", "mine", url=url)

    assert ferry.run("task", "show", "mine", "--tenant", "other", url=url).code == 4


@pytest.mark.contract("T14")
async def test_all_that_fit_a_description_are_cancelled_at_once(url: str) -> None:
    async with Ferryman(url) as app:
        await app.tasks.create_many("greet", [{"n": n} for n in range(1200)], queue="mail")
        kept = await app.tasks.create("greet", {}, queue="other")

        unsure = ferry.run("task", "cancel", "--queue", "mail", url=url)
        sure = ferry.run("task", "cancel", "--queue", "mail", "--yes", "--json", url=url)

        assert unsure.code == 2
        assert "--yes" in unsure.err
        assert sure.json == {"cancelled_count": 1200}
        assert (await kept.refresh()).state == "ready"


def test_pages_follow_each_other(url: str) -> None:
    for n in range(3):
        ferry.run("task", "create", "greet", "--id", f"t{n}", url=url)

    first = ferry.run("task", "list", "--limit", "2", "--json", url=url).json
    second = ferry.run("task", "list", "--limit", "2", "--before", first["next_before"], "--json", url=url).json

    assert [task["task_id"] for task in first["tasks"] + second["tasks"]] == ["t2", "t1", "t0"]
    assert second["next_before"] is None


@pytest.mark.contract("T18")
def test_waiting_gives_the_result_or_says_why_not(url: str) -> None:
    with ferry.worker(url=url):
        won = ferry.run("task", "create", "greet", '{"name": "Ada"}', "--wait", url=url)
        lost = ferry.run("task", "create", "fall", "--app", "shop:app", "--id", "lost", "--wait", url=url)
        asked = ferry.run("task", "result", "lost", url=url)

    assert (won.code, won.out) == (0, '"Hello, Ada"\n')
    assert (lost.code, lost.out) == (1, "")
    assert "TASK_EXECUTION_FAILED: ValueError: boom" in lost.err
    assert (asked.code, asked.out) == (1, "")
    assert "\x1b" not in lost.err + asked.err


@pytest.mark.contract("T18")
def test_a_running_task_shows_its_progress_and_its_log(url: str) -> None:
    with ferry.worker(url=url):
        waited = ferry.run("task", "create", "cross", "--id", "c", "--wait-for", "10ms", url=url)
        with ferry.running("task", "wait", "c", url=url) as waiting:
            ferry.read_until(waiting.stderr, "40 % running half way")
        shown = ferry.run("task", "show", "c", url=url)
        logs = ferry.run("task", "logs", "c", "--json", url=url)
        with ferry.running("task", "logs", "c", "--follow", url=url) as following:
            ferry.read_until(following.stdout, "on the water")
            ferry.run("task", "cancel", "c", url=url)
            assert following.wait(PATIENCE_SECONDS) == 0

    assert (waited.code, "it goes on without us" in waited.err) == (6, True)
    assert "40 % half way" in shown.out
    assert logs.json["message"] == "on the water"


def test_a_payload_is_checked_when_the_app_is_given(url: str) -> None:
    ran = ferry.run("task", "create", "greet", '{"nme": 1}', "--app", "shop:app", url=url)

    assert ran.code == 2
    assert ran.err.startswith("TASK_INVALID_PAYLOAD: ")
    assert ferry.run("task", "list", "--json", url=url).json["tasks"] == []


@pytest.mark.contract("K20")
@pytest.mark.parametrize(
    "arguments",
    [
        ("list", "--queue", "a b"),
        ("list", "--name", "\udcff"),
        ("list", "--state", "gone"),
        ("list", "--limit", "0"),
        ("list", "--limit", "999999999999999999999999"),
        ("list", "--before", "x"),
        ("cancel", "--queue", "a b", "--yes"),
        ("cancel", "a b"),
        ("show", "a b"),
        ("logs", "\udcff"),
    ],
    ids=ascii,
)
def test_what_cannot_be_asked_is_one_sentence(url: str, arguments: tuple[str, ...]) -> None:
    ran = ferry.run("task", *arguments, url=url)

    assert (ran.code, ran.out) == (2, "")
    assert "Traceback" not in ran.err
    assert ran.err.count("\n") == 1


def test_a_reason_that_is_no_unicode_is_kept_readable(url: str) -> None:
    ferry.run("task", "create", "greet", "--id", "one", url=url)

    ran = ferry.run("task", "cancel", "one", "--reason", "caf\udce9", url=url)
    shown = ferry.run("task", "show", "one", "--json", url=url)

    assert ran.code == 0
    assert shown.json["events"][-1]["payload"]["reason_message"] == "caf\\udce9"
