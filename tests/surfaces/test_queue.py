"""`ferryman queue`, and `ferryman task retry`."""

import pytest

from tests.surfaces import ferry

pytestmark = pytest.mark.contract("T17", "S3")


def test_a_queue_can_be_made_shown_changed_paused_and_resumed(database_url: str) -> None:
    url = database_url
    made = ferry.run("queue", "set", "mail", "--new", "--concurrency", "5", "--rate", "100/minute", "--json", url=url)
    changed = ferry.run("queue", "set", "mail", "--concurrency", "none", "--weight", "3", "--json", url=url)
    own = ferry.run("queue", "set", "mail", "--for", "acme", "--concurrency", "2", "--json", url=url)
    paused = ferry.run("queue", "pause", "mail", url=url)
    shown = ferry.run("queue", "show", "mail", "--json", url=url)
    resumed = ferry.run("queue", "resume", "mail", "--json", url=url)

    assert (made.json["queue"]["concurrency"], made.json["queue"]["rate"]) == (5, "100/minute")
    queue = changed.json["queue"]
    assert (queue["concurrency"], queue["rate"], queue["weight"]) == (None, "100/minute", 3)
    assert own.json["tenants"][0]["concurrency"] == 2
    assert paused.out == "mail of all tenants: paused; what runs goes on.\n"
    assert shown.json["queue"]["paused_at"] is not None
    assert shown.json["holders"] == []
    assert resumed.json["paused"] is False


@pytest.mark.contract("K12")
@pytest.mark.parametrize("option", ["--for", "--tenant"])
def test_a_tenant_that_is_named_is_paused_alone(database_url: str, option: str) -> None:
    ferry.run("queue", "set", "mail", "--new", "--weight", "2", url=database_url)

    paused = ferry.run("queue", "pause", "mail", option, "acme", url=database_url)
    shown = ferry.run("queue", "show", "mail", "--json", url=database_url).json
    handler = ferry.run("queue", "pause", "--task", "greet", option, "acme", url=database_url)

    assert paused.out == "mail of acme: paused; what runs goes on.\n"
    assert shown["queue"]["paused_at"] is None
    assert [(each["tenant"], each["paused_at"] is not None) for each in shown["tenants"]] == [("acme", True)]
    assert (handler.code, "all tenants" in handler.err) == (2, True)


def test_the_list_shows_what_waits_and_what_is_agreed(database_url: str) -> None:
    ferry.run("task", "create", "greet", "--queue", "mail", "--limit-key", "c7", url=database_url)
    ferry.run("queue", "set", "mail", "--concurrency", "5", "--max-depth", "9", url=database_url)
    ferry.run("queue", "pause", "--task", "greet", url=database_url)

    told = ferry.run("queue", "list", url=database_url)
    listed = ferry.run("queue", "list", "--json", url=database_url).json

    assert "0 of 5" in told.out
    assert "9, then refuse_newest" in told.out
    assert "Tasks of greet are paused" in told.out
    assert [(each["name"], each["ready"]) for each in listed["queues"]] == [("mail", 1)]
    assert list(listed["paused_tasks"]) == ["greet"]
    assert ferry.run("queue", "resume", "--task", "greet", url=database_url).code == 0


@pytest.mark.parametrize(
    ("arguments", "code", "word"),
    [
        (["show", "nobody"], 4, "UNKNOWN_QUEUE: "),
        (["pause", "nobody"], 4, "UNKNOWN_QUEUE: "),
        (["set", "nobody", "--concurrency", "5"], 4, "UNKNOWN_QUEUE: "),
        (["set", "x", "--new", "--concurrency", "0"], 2, "QUEUE_INVALID: concurrency: "),
        (["set", "x", "--new", "--concurrency", "-3"], 2, "QUEUE_INVALID: concurrency: "),
        (["set", "x", "--new", "--concurrency", "many"], 2, "USAGE_INVALID: --concurrency: "),
        (["set", "x", "--new", "--rate", "fast"], 2, "QUEUE_INVALID: rate: "),
        (["set", "x", "--new", "--weight", "0"], 2, "QUEUE_INVALID: weight: "),
        (["set", "x", "--new", "--at-limit", "never"], 2, "QUEUE_INVALID: at_limit: "),
        (["set", "x", "--new"], 2, "USAGE_INVALID: "),
        (["set", "a b", "--new", "--weight", "2"], 2, "TASK_INVALID_REQUEST: queue: "),
        (["pause"], 2, "USAGE_INVALID: "),
        (["pause", "x", "--task", "y"], 2, "USAGE_INVALID: "),
    ],
)
def test_a_wrong_word_is_answered_with_a_code_and_stores_nothing(
    arguments: list[str], code: int, word: str, database_url: str
) -> None:
    ran = ferry.run("queue", *arguments, url=database_url)

    assert (ran.code, ran.out) == (code, "")
    assert ran.err.startswith(word)
    assert ferry.run("queue", "list", "--json", url=database_url).json["queues"] == []


def test_tasks_are_tried_anew_by_id_or_by_description(database_url: str) -> None:
    url = database_url
    for id in ("one", "two", "three"):
        ferry.run("task", "create", "greet", "--id", id, "--queue", "mail", url=url)
    ferry.run("task", "cancel", "one", "two", url=url)

    named = ferry.run("task", "retry", "one", "--json", url=url)
    again = ferry.run("task", "retry", "one", url=url)
    live = ferry.run("task", "retry", "three", url=url)
    unsure = ferry.run("task", "retry", "--queue", "mail", url=url)
    rest = ferry.run("task", "retry", "--queue", "mail", "--state", "cancelled", "--yes", "--json", url=url)
    new = ferry.run("task", "show", named.json["retried"][0]["retry"], "--json", url=url)

    assert len(named.json["retried"]) == 1
    assert (again.code, again.out) == (5, "one  left: it is being retried already\n")
    assert (live.code, live.out) == (5, "three  left: it is ready\n")
    assert (unsure.code, unsure.err.startswith("USAGE_INVALID: ")) == (2, True)
    assert rest.json == {"retried_count": 1, "seen_count": 2}
    assert new.json["task"]["retry_of"] == named.json["retried"][0]["task"]


def test_an_apps_declaration_is_stored_by_hand(database_url: str) -> None:
    first = ferry.run("queue", "declare", "--app", "harbour:app", "--json", url=database_url)
    again = ferry.run("queue", "declare", "--app", "harbour:app", url=database_url)

    assert first.json == {"changed": ["mail"]}
    assert again.out == "Nothing has changed.\n"
