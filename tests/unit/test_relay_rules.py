"""The pure rules of relays: subjects, destinations, choices, ends, signatures."""

import base64
import hashlib
import hmac
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address, ip_network
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferryman.app.relays import TELLERS
from ferryman.kernel import errors
from ferryman.kernel.events import Event
from ferryman.relays import webhook
from ferryman.relays.model import Address, Claimed, Webhook
from ferryman.relays.ports import Tellers
from ferryman.relays.rules import choice, destination, ending, subject
from ferryman.relays.states import ACTIVE

ID = UUID("01900000-0000-7000-8000-000000000001")
HOOK = UUID("01900000-0000-7000-8000-000000000002")
NOW = datetime(2026, 11, 16, tzinfo=UTC)


def event(**more: Any) -> Event:
    told: dict[str, Any] = {
        "id": 7, "at": NOW, "tenant": "acme", "kind": "task", "subject": ID, "subject_name": None, "from_state": "ready",
        "to_state": "running", "attempt": 1, "reason_code": None, "reason_message": None, "data": None, "token": 31,
    }  # fmt: skip
    return Event(**told | more)


# Subjects


@pytest.mark.contract("K10")
def test_an_event_of_a_task_stands_under_its_id_and_its_state() -> None:
    address = TELLERS.address(event())

    assert subject.subject(address, tenant="acme") == f"fm.v1.acme.main.evt.task.{ID}.running"


@pytest.mark.contract("K10")
@pytest.mark.parametrize("kind", ["task", "schedule", "something"])
def test_an_event_that_is_no_move_has_a_subject_too(kind: str) -> None:
    told = subject.subject(TELLERS.address(event(kind=kind, from_state=None, to_state=None)), tenant="acme")

    assert told.count(".") == 7
    assert not told.endswith(".")


@pytest.mark.contract("K10")
def test_what_is_volatile_goes_under_str_and_is_not_kept() -> None:
    told = subject.subject(Address("agent", "7", "token", volatile=True), tenant="acme")

    assert told == "fm.v1.acme.main.str.agent.7.token"
    assert not subject.covers(subject.kept(), told)


@pytest.mark.contract("K10")
@given(st.text(max_size=20), st.text(max_size=20))
def test_any_text_is_one_token_and_no_two_are_spelled_alike(one: str, other: str) -> None:
    spelled = subject.token(one)

    assert spelled
    assert all(each.isascii() and each.isprintable() and each not in " .*>" for each in spelled)
    assert subject.read(spelled) == one
    assert (spelled == subject.token(other)) is (one == other)


@pytest.mark.parametrize(
    ("pattern", "covered"),
    [
        ("fm.v1.*.*.evt.>", True), ("fm.>", True), (">", True), ("fm.v1.*.*.*.>", True), ("fm.v1.acme.*.evt.>", False),
        ("fm.v1.*.*.evt.*", False), ("fm.v1.*.*.evt.*.*.*", False), ("fm.v1.*.*.str.>", False), ("fm", False),
    ],
)  # fmt: skip
def test_a_stream_must_keep_all_events(pattern: str, covered: bool) -> None:
    assert subject.covers(pattern, subject.kept()) is covered


# Destinations


PRIVATE = [
    "127.0.0.1", "127.1.2.3", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "192.0.0.8",
    "192.0.2.1", "198.18.0.1", "198.51.100.7", "203.0.113.9", "192.88.99.1", "224.0.0.1", "240.0.0.1", "255.255.255.255",
    "::", "::1", "fe80::1", "fc00::1", "fd12::1", "ff02::1", "fec0::1", "100::1", "2001:db8::1", "2001::1",
    "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1",
    "2002:7f00:1::", "2002:a00:1::1",
]  # fmt: skip
PUBLIC = [
    "8.8.8.8",
    "1.1.1.1",
    "2606:4700::1111",
    "2a00:1450:4001::1",
    "::ffff:8.8.8.8",
    "64:ff9b::808:808",
    "2002:808:808::1",
]


@pytest.mark.contract("S6")
@pytest.mark.parametrize("address", PRIVATE)
def test_an_address_that_is_not_public_is_not_called(address: str) -> None:
    assert not destination.reachable(ip_address(address))


@pytest.mark.contract("S6")
@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_is_called(address: str) -> None:
    assert destination.reachable(ip_address(address))


@pytest.mark.contract("S6")
def test_a_network_that_is_allowed_is_called_and_no_other() -> None:
    allowed = [ip_network("10.1.0.0/16"), ip_network("::1/128")]

    assert destination.reachable(ip_address("10.1.2.3"), allowed=allowed)
    assert destination.reachable(ip_address("::ffff:10.1.2.3"), allowed=allowed)
    assert destination.reachable(ip_address("::1"), allowed=allowed)
    assert not destination.reachable(ip_address("10.2.0.1"), allowed=allowed)
    assert not destination.reachable(ip_address("127.0.0.1"), allowed=allowed)


@pytest.mark.contract("S6", "K20")
@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("", "names a host"), ("example.com/hook", "https://"), ("file:///etc/passwd", "https://"), ("gopher://x/", "https://"),
        ("https://", "names a host"), ("https://me:word@example.com/", "without a user"),
        ("https://example.com/#x", "fragment"),
        ("https://example.com:0/", "port"), ("https://example.com:99999/", "a URL such as"), ("https://[::1/", "a URL such as"),
        ("https://exa mple.com/", "a URL such as"), ("https://example.com/\r\nx", "a URL such as"), (None, "NoneType"),
        (f"https://example.com/{'x' * 2000}", "2000 characters"), ("http://127.0.0.1/", "public internet"),
        ("http://[::ffff:127.0.0.1]:80/", "public internet"), ("http://169.254.169.254/latest", "public internet"),
    ],
)  # fmt: skip
def test_a_url_that_cannot_be_right_is_refused_at_the_door(url: Any, told: str) -> None:
    with pytest.raises(errors.WebhookInvalid, match=told) as refused:
        destination.check_url(url)

    assert refused.value.details["field"] == "url"


def test_a_sound_url_passes_as_it_is() -> None:
    for url in ("https://example.com/hook?a=1", "http://example.com:8080", "https://8.8.8.8/"):
        assert destination.check_url(url) == url


# Which events


def hook(**more: Any) -> Webhook:
    told: dict[str, Any] = {
        "id": HOOK, "tenant": "acme", "name": None, "url": "https://example.com", "kinds": None, "state": ACTIVE, "after_id": 5,
        "key_id": "k", "secret_version": 1, "created_at": NOW, "updated_at": NOW, "rotated_at": None, "disabled_at": None,
    }  # fmt: skip
    return Webhook(**told | more)


@pytest.mark.contract("K10", "K12")
@pytest.mark.parametrize(
    ("webhook", "event", "wanted"),
    [
        (hook(), event(), True),
        (hook(kinds=("task",)), event(), True),
        (hook(kinds=("task.running",)), event(), True),
        (hook(kinds=("task.failed", "schedule")), event(), False),
        (hook(kinds=("tas",)), event(), False),
        (hook(tenant="other"), event(), False),
        (hook(after_id=7), event(), False),
        (hook(after_id=6), event(), True),
        (hook(), event(kind="webhook_delivery"), False),
        (hook(), event(kind="webhook"), True),
        (hook(), event(kind="webhook", subject=HOOK), False),
    ],
)
def test_a_webhook_is_told_of_what_it_asked_for_of_its_own_tenant(webhook: Webhook, event: Event, wanted: bool) -> None:
    assert choice.wants(webhook, event) is wanted


@pytest.mark.parametrize(
    "kinds", [[], 5, ["a b"], [7], ["webhook_delivery"], ["webhook_delivery.dead"], ["x"] * 101 + ["y"]]
)
def test_kinds_that_cannot_be_right_are_refused(kinds: Any) -> None:
    if isinstance(kinds, list) and kinds and kinds[-1] == "y":
        kinds = [f"x{n}" for n in range(101)]
    with pytest.raises(errors.WebhookInvalid, match="kinds"):
        choice.check_kinds(kinds)


def test_one_kind_may_be_a_text_and_each_counts_once() -> None:
    assert choice.check_kinds("task") == ("task",)
    assert choice.check_kinds(["task", "task"]) == ("task",)
    assert choice.check_kinds(None) is None


# What becomes of a try


def claim(attempts: int) -> Claimed:
    return Claimed(ID, 3, ID, "evt_7-1", attempts, "{}", "https://example.com", 1, False)


@pytest.mark.contract("K10", "K9", "K18")
@pytest.mark.parametrize(
    ("status", "attempts", "word", "told"),
    [
        (200, 1, "delivered", None), (204, 9, "delivered", None), (299, 1, "delivered", None),
        (302, 1, "again", "redirects are not followed"), (400, 1, "again", "HTTP 400"), (500, 1, "again", "HTTP 500"),
        (101, 1, "again", "HTTP 101"), (500, 3, "dead", "the last of 3 tries"), (410, 1, "dead", "gone for good"),
    ],
)  # fmt: skip
def test_an_answer_ends_a_delivery_or_lets_it_wait(status: int, attempts: int, word: str, told: str | None) -> None:
    outcome = ending.answered(claim(attempts), status, most=3)

    assert (outcome.word, outcome.status, outcome.epoch) == (word, status, 3)
    assert (outcome.error is None) if told is None else (outcome.error is not None and told in outcome.error)
    assert (outcome.delay > 0) is (word == "again")


@pytest.mark.contract("K18")
def test_pauses_grow_up_to_a_cap_and_ten_tries_fit_into_a_day() -> None:
    least = [ending.PAUSES.delay(attempt, random=lambda: 0.0) for attempt in range(1, 12)]

    assert least == sorted(least)
    assert least[-1] == timedelta(hours=4)
    assert sum(least[:9], timedelta()) * 1.1 < timedelta(days=1) / 2


def test_a_last_try_that_nobody_answered_for_is_the_end() -> None:
    assert ending.lost(claim(3), most=3) is None
    over = ending.lost(claim(4), most=3)
    assert over is not None
    assert over.word == "dead"


def test_long_words_of_a_failure_are_cut() -> None:
    assert len(ending.failed(claim(1), "x" * 9999, most=3).error or "") == ending.LONGEST


# Telling


class Broken:
    def address(self, event: Event) -> Address:
        raise ValueError(event.id)

    def envelope(self, _event: Event) -> dict[str, Any]:
        return {"worth": float("nan")}


@pytest.mark.contract("K25")
def test_an_event_that_cannot_be_told_is_told_bare() -> None:
    tellers = Tellers({"task": Broken()})

    assert tellers.address(event()) == Address("task", str(ID), "running")
    assert '"incomplete":true' in tellers.body(event())
    assert '"incomplete":true' in Tellers().body(event(data="{not json"))


# Signatures


KEY = "a key that nobody can guess, really"


@pytest.mark.contract("S6")
def test_a_signature_is_what_standard_webhooks_says() -> None:
    secret = webhook.secret_of(KEY, ID, 1)
    body = '{"é":1}'.encode()
    own = hmac.new(base64.b64decode(secret.removeprefix("whsec_")), b"evt_7.1700000000." + body, hashlib.sha256)

    headers = webhook.headers([secret], id="evt_7", timestamp=1_700_000_000, body=body)

    assert headers == {
        "webhook-id": "evt_7",
        "webhook-timestamp": "1700000000",
        "webhook-signature": f"v1,{base64.b64encode(own.digest()).decode()}",
    }


@pytest.mark.contract("S6")
def test_a_receiver_takes_a_call_that_is_signed_and_fresh() -> None:
    old, new = webhook.secret_of(KEY, ID, 1), webhook.secret_of(KEY, ID, 2)
    headers = webhook.headers([new, old], id="evt_7", timestamp=1000, body=b"{}")
    spelled = {name.title(): value for name, value in headers.items()}

    for secret in (old, new, [old, new]):
        assert webhook.verify(b"{}", spelled, secret=secret, now=1000 + 299) == "evt_7"
    assert webhook.verify("{}", headers, secret=old, now=1000 - 299) == "evt_7"


@pytest.mark.contract("S6")
@pytest.mark.parametrize(
    "spoiled",
    [
        {"body": b"{ }"}, {"now": 1301.0}, {"now": 699.0}, {"id": "evt_8"}, {"timestamp": "1001"}, {"timestamp": "1e3"},
        {"timestamp": "²"}, {"timestamp": ""}, {"signature": ""}, {"signature": "v1,"}, {"signature": "v1"}, {"signature": "é"},
        {"secret": webhook.secret_of(KEY, uuid4(), 1)}, {"secret": webhook.secret_of(KEY, ID, 2)},
        {"secret": webhook.secret_of(KEY + "x", ID, 1)}, {"secret": "not base64!"}, {"secret": []},
    ],
)  # fmt: skip
def test_a_receiver_refuses_any_other_call(spoiled: dict[str, Any]) -> None:
    secret = webhook.secret_of(KEY, ID, 1)
    headers = webhook.headers([secret], id="evt_7", timestamp=1000, body=b"{}")
    for name in ("id", "timestamp", "signature"):
        headers[f"webhook-{name}"] = spoiled.get(name, headers[f"webhook-{name}"])

    with pytest.raises(errors.SignatureInvalid):
        webhook.verify(
            spoiled.get("body", b"{}"), headers, secret=spoiled.get("secret", secret), now=spoiled.get("now", 1000.0)
        )


def test_a_signature_without_headers_is_refused() -> None:
    with pytest.raises(errors.SignatureInvalid, match="lacks"):
        webhook.verify(b"{}", {}, secret=webhook.secret_of(KEY, ID, 1))
