"""`ferryman relay`."""

from typing import Any

import pytest

from tests.surfaces import ferry

KEY: dict[str, Any] = {"FERRYMAN_RELAYS__WEBHOOK_KEY": "0123456789abcdef0123456789abcdef"}


@pytest.mark.contract("S3", "S6", "K10")
def test_a_webhook_can_be_added_listed_paused_resumed_rotated_and_removed(database_url: str) -> None:
    def run(*arguments: str) -> ferry.Ran:
        return ferry.run("relay", "webhook", *arguments, url=database_url, **KEY)

    added = run(
        "add", "https://example.com/hook", "--kind", "task.failed", "--kind", "schedule", "--name", "alarms", "--json"
    )
    again = run("add", "https://example.com/hook", "--kind", "task.failed", "--kind", "schedule", "--name", "alarms")
    differs = run("add", "https://example.com/other", "--name", "alarms")
    listed = run("list", "--json")
    shown = run("secret", "alarms", "--json")
    paused = run("pause", "alarms", "--reason", "holidays", "--json")
    twice = run("pause", "alarms")
    resumed = run("resume", "alarms", "--json")
    rotated = run("rotate", "alarms", "--json")
    deliveries = run("deliveries", "alarms", "--json")
    removed = run("remove", "alarms", "--json")
    status = ferry.run("relay", "status", "--json", url=database_url)

    assert (added.json["webhook"]["kinds"], added.json["idempotent_hit"]) == (["task.failed", "schedule"], False)
    assert added.json["secret"].startswith("whsec_")
    assert "(it was there already)" in again.out
    assert (differs.code, "WEBHOOK_DUPLICATE" in differs.err) == (5, True)
    assert [each["name"] for each in listed.json["webhooks"]] == ["alarms"]
    assert shown.json["secret"] == added.json["secret"] != rotated.json["secret"]
    assert (paused.json["moved"], paused.json["webhook"]["state"]) == (True, "paused")
    assert "nothing has changed" in twice.out
    assert resumed.json["webhook"]["state"] == "active"
    assert deliveries.json == {"deliveries": [], "next_before": None}
    assert (removed.json["moved"], removed.json["webhook"]["state"]) == (True, "disabled")
    assert [each["name"] for each in status.json["consumers"]] == ["relay.webhooks"]


@pytest.mark.contract("S3", "K20")
def test_people_get_tables_and_are_told_what_is_wrong(database_url: str) -> None:
    def run(*arguments: str, **more: Any) -> ferry.Ran:
        return ferry.run("relay", *arguments, url=database_url, **more)

    empty = run("status")
    keyless = run("webhook", "add", "https://example.com/hook")
    private = run("webhook", "add", "http://169.254.169.254/latest", **KEY)
    short = run("status", FERRYMAN_RELAYS__WEBHOOK_KEY="guessable")
    run("webhook", "add", "https://example.com/hook", "--name", "alarms", **KEY)
    listed = run("webhook", "list")
    missing = run("webhook", "pause", "nobody")
    retried = run("webhook", "retry", "01900000-0000-7000-8000-000000000000")
    status = run("status")
    forgotten = run("forget", "relay.webhooks")
    gone = run("forget", "relay.webhooks")

    assert "Nobody reads the log" in empty.err
    assert (keyless.code, "openssl rand -hex 32" in keyless.err) == (2, True)
    assert (private.code, "not an address of the public internet" in private.err) == (2, True)
    assert (short.code, "guessable" in short.err, "at least 32 characters" in short.err) == (2, False, True)
    assert "everything" in listed.out
    assert (missing.code, "WEBHOOK_NOT_FOUND" in missing.err) == (4, True)
    assert (retried.code, "DELIVERY_NOT_FOUND" in retried.err) == (4, True)
    assert "relay.webhooks" in status.out
    assert (forgotten.code, gone.code) == (0, 4)


@pytest.mark.contract("S6", "S7")
def test_the_key_is_never_shown(database_url: str) -> None:
    shown = ferry.run("config", url=database_url, **KEY)

    assert "relays.webhook_key" in shown.out
    assert KEY["FERRYMAN_RELAYS__WEBHOOK_KEY"] not in shown.out + shown.err
