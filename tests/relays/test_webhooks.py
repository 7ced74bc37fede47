"""Webhooks against a real receiver: what is sent, what becomes of it, and what a bad receiver can do."""

import asyncio
import socket
from datetime import timedelta
from typing import Any

import pytest

from ferryman.kernel import errors, ids, telemetry, watchdog
from ferryman.kernel.pool import Line
from ferryman.relays import watch, webhook
from ferryman.relays.states import DEAD, DELIVERED, PENDING
from ferryman.testing import NatsServer
from tests.relays.conftest import Make, caught_up, happen, later, owed, relaying, settled
from tests.relays.receiver import Answer, Call, Receiver, endless, raw, silence, status

DAY = timedelta(days=1)


def counted(outcome: str) -> float:
    return telemetry.registry().get_sample_value("ferryman_webhook_calls_total", {"outcome": outcome}) or 0.0


@pytest.mark.contract("K10", "S6", "K19")
async def test_an_event_is_posted_once_signed_and_settled(make: Make, receiver: Receiver) -> None:
    before = counted("delivered")
    async with make() as app, relaying(app):
        added = await app.webhooks.add(receiver.url("/hook?a=1"), kinds="task")
        [task] = await happen(app)

        [call] = await receiver.seen(1)
        [delivery] = await settled(app, added.webhook, state=DELIVERED)

    assert webhook.verify(call.body, call.headers, secret=added.secret) == call.json["event_id"] == delivery.event_id
    assert (call.path, call.headers["content-type"]) == ("/hook?a=1", "application/json")
    assert (call.json["type"], call.json["payload"]["task_id"]) == ("task_created", task)
    assert (delivery.attempts, delivery.last_status, delivery.last_error) == (1, 200, None)
    assert len(receiver.calls) == 1
    assert counted("delivered") == before + 1


@pytest.mark.contract("K10", "K18")
async def test_a_receiver_that_fails_is_called_again_with_the_same_until_it_takes_it(
    make: Make, receiver: Receiver
) -> None:
    receiver.answers["/"] = status(503)
    async with make() as app, relaying(app):
        added = await app.webhooks.add(receiver.url())  # everything, and still not of itself
        await happen(app)
        for tries in (1, 2):
            await receiver.seen(tries)
            [delivery] = await settled(app, added.webhook, attempts=tries, leased_until=None)
            assert (delivery.state, delivery.last_error) == (PENDING, "HTTP 503")
            await later(app, timedelta(seconds=20))
        await receiver.seen(3)
        [delivery] = await settled(app, added.webhook, attempts=3, leased_until=None)
        receiver.answers["/"] = status(200)
        await later(app, timedelta(minutes=1))
        [delivery] = await settled(app, added.webhook, state=DELIVERED)

    assert delivery.attempts == 4
    assert len({(call.event, call.body) for call in receiver.calls}) == 1


BAD: dict[str, tuple[Answer, str]] = {
    "/broken": (status(500), "HTTP 500"),
    "/elsewhere": (status(302, "Location: /target"), "redirects are not followed"),
    "/garbage": (raw(b"\x00\xff not http at all\r\n\r\n"), "ClientResponseError"),
    "/half": (raw(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort"), "ClientPayloadError"),
    "/mute": (raw(b""), "ServerDisconnectedError"),
    "/slow": (silence, "no answer within 0.5 s"),
    "/headers": (raw(b"HTTP/1.1 200 OK\r\n" + b"X: " + b"y" * 100_000 + b"\r\n\r\n"), "Got more than"),
    "/gone": (status(410), "gone for good"),
}


@pytest.mark.contract("K10", "K9", "S6")
async def test_a_bad_receiver_ends_its_own_deliveries_and_no_others(make: Make, receiver: Receiver) -> None:
    receiver.answers |= {path: answer for path, (answer, _) in BAD.items()} | {"/endless": endless}
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # and nobody listens
        nobody = f"http://127.0.0.1:{unused.getsockname()[1]}/"
        told: dict[str, Any] = {}
        async with make(attempts=1, timeout="60s") as app, relaying(app, grace=0.0):
            hooks = {
                path: (await app.webhooks.add(receiver.url(path), kinds="task")).webhook
                for path in [*BAD, "/endless", "/well"]
            }
            hooks["nobody"] = (await app.webhooks.add(nobody, kinds="task")).webhook
            await happen(app)
            await receiver.seen(1, "/slow")
            for path, added in hooks.items():
                if path != "/slow":
                    good = path in ("/endless", "/well")
                    told[path] = (await settled(app, added, state=DELIVERED if good else DEAD))[0]
        # It was handed back. Whoever is less patient gives it up.
        async with make(attempts=1, timeout="0.5s") as app, relaying(app):
            [told["/slow"]] = await settled(app, hooks["/slow"], state=DEAD)

    for path, (_, why) in BAD.items():
        assert why in told[path].last_error, path
    assert "Connect call failed" in told["nobody"].last_error
    assert receiver.of("/target") == []


@pytest.mark.contract("K10")
async def test_a_slow_receiver_fills_its_own_room_and_nobody_elses(make: Make, receiver: Receiver) -> None:
    patience = asyncio.Event()

    async def wait(call: Call, writer: asyncio.StreamWriter) -> None:
        await patience.wait()
        await status(200)(call, writer)

    receiver.answers["/slow"] = wait
    async with make(concurrency=8, concurrency_of_one=2, timeout="60s") as app, relaying(app), relaying(app):
        slow = (await app.webhooks.add(receiver.url("/slow"), kinds="task")).webhook
        quick = (await app.webhooks.add(receiver.url("/quick"), kinds="task")).webhook
        await happen(app, 20)

        await settled(app, quick, 20, state=DELIVERED)
        assert len(await receiver.seen(2, "/slow")) == receiver.most["/slow"] == 2
        patience.set()
        await settled(app, slow, 20, state=DELIVERED)

    assert receiver.most["/slow"] == 2
    # Two processes made deliveries and sent them: each once.
    assert len(receiver.calls) == 40
    assert len({(call.path, call.event) for call in receiver.calls}) == 40


# Where a webhook may lead


@pytest.mark.contract("S6")
async def test_a_name_that_leads_to_a_private_address_is_not_called(
    make: Make, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = socket.getaddrinfo

    def lead_home(host: Any, *args: Any, **more: Any) -> Any:
        return real("127.0.0.1" if host == "rebound.example" else host, *args, **more)

    monkeypatch.setattr(socket, "getaddrinfo", lead_home)
    hosts = ["localhost", "rebound.example", "2130706433", "0x7f.1", "127.1", "0", "[::ffff:7f00:1]"]
    async with make(attempts=1, private_networks=()) as app, relaying(app):
        hooks = []
        for host in hosts:
            try:
                hooks.append((await app.webhooks.add(f"http://{host}:{receiver.port}/", kinds="task")).webhook)
            except errors.WebhookInvalid:
                assert host.startswith("[")
        with pytest.raises(errors.WebhookInvalid, match="public internet"):
            await app.webhooks.add(receiver.url())
        await happen(app)
        dead = [(await settled(app, each, state=DEAD))[0] for each in hooks]

    assert len(dead) == len(hosts) - 1
    for each in dead:
        told = each.last_error or ""
        assert "not an address of the public internet" in told or "not a canonical IPv4 address" in told
    assert receiver.calls == []


# Pausing, removing, trying anew


@pytest.mark.contract("K10", "K21")
async def test_what_a_paused_webhook_is_owed_waits_but_not_past_its_end(make: Make, receiver: Receiver) -> None:
    async with make() as app, relaying(app):
        added = (await app.webhooks.add(receiver.url(), kinds="task", name="ship")).webhook
        assert await app.webhooks.pause("ship", reason="holidays")
        assert not await app.webhooks.pause("ship")
        await happen(app)
        [first] = await settled(app, added)
        assert await app.webhooks.resume("ship")
        await settled(app, added, state=DELIVERED)
        await app.webhooks.pause("ship")
        await happen(app)
        await settled(app, added, 2)
        await later(app, DAY + timedelta(seconds=1))
        rules = watch.rules(interval=DAY, kept=DAY, dead_kept=DAY)
        line = Line(str(app.settings.database_url))
        report = await watchdog.tick(line, rules)
        await line.close()
        [dead] = await settled(app, added, state=DEAD)

        assert report.acted("K10-dead") == 1
        assert dead.last_error == "its time was over before the first try"
        assert report.acted("K10-kept") == 1  # the one that was delivered a day ago
        assert [each.id for each in await owed(app, added)] == [dead.id]

    assert [call.event for call in receiver.calls] == [first.event_id]


@pytest.mark.contract("K10")
async def test_a_dead_delivery_is_tried_anew_by_hand(make: Make, receiver: Receiver) -> None:
    receiver.answers["/"] = status(410)
    async with make() as app, relaying(app):
        added = (await app.webhooks.add(receiver.url(), kinds="task")).webhook
        await happen(app)
        [dead] = await settled(app, added, state=DEAD)
        receiver.answers["/"] = status(204, body=b"")
        tried = await app.webhooks.retry(dead.id)
        assert (await app.webhooks.retry(str(dead.id))).id == tried.id
        [delivery] = await settled(app, added, state=DELIVERED)

        with pytest.raises(errors.DeliveryNotDead, match="it is delivered"):
            await app.webhooks.retry(tried.id)
        with pytest.raises(errors.DeliveryNotFound, match="expected its id"):
            await app.webhooks.retry("nonsense")

    assert (delivery.id, delivery.retry_of) == (tried.id, dead.id)
    assert len({(call.event, call.body) for call in receiver.calls}) == 1


@pytest.mark.contract("K10", "K12")
async def test_a_webhook_hears_of_its_own_tenant_from_its_birth_to_its_removal(make: Make, receiver: Receiver) -> None:
    async with make() as app, relaying(app):
        await happen(app)
        added = (await app.webhooks.add(receiver.url("/own"), kinds="task")).webhook
        other = (await app.webhooks.of("acme").add(receiver.url("/acme"), kinds="task")).webhook
        [task] = await happen(app)
        await settled(app, added, state=DELIVERED)
        assert await app.webhooks.remove(added.id)
        assert not await app.webhooks.remove(added.id)
        await happen(app)
        [stranger] = [str((await app.tasks.of("acme").create("mail")).id)]
        await receiver.seen(1, "/acme")
        with pytest.raises(errors.WebhookNotFound):
            await app.webhooks.get(other.id)
        assert [each.id for each in await app.webhooks.list(state="active")] == []

    assert [call.json["payload"]["task_id"] for call in receiver.of("/own")] == [task]
    assert [call.json["payload"]["task_id"] for call in receiver.of("/acme")] == [stranger]


# Secrets


@pytest.mark.contract("S6")
async def test_after_a_change_of_secret_both_sign_for_a_day(make: Make, receiver: Receiver) -> None:
    async with make() as app, relaying(app):
        old = await app.webhooks.add(receiver.url(), kinds="task")
        new = await app.webhooks.rotate(old.webhook.id)
        await happen(app)
        [both] = await receiver.seen(1)
        await later(app, DAY)
        await happen(app)
        alone = (await receiver.seen(2))[1]
        assert await app.webhooks.secret(old.webhook.id) == new.secret != old.secret

    for secret in (old.secret, new.secret):
        webhook.verify(both.body, both.headers, secret=secret)
    webhook.verify(alone.body, alone.headers, secret=new.secret)
    with pytest.raises(errors.SignatureInvalid):
        webhook.verify(alone.body, alone.headers, secret=old.secret)


@pytest.mark.contract("S6", "K20")
async def test_no_secret_is_in_the_database_and_another_key_sends_nothing(
    make: Make, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    async with make() as app, make(webhook_key="another key that nobody can guess") as other:
        added = await app.webhooks.add(receiver.url(), kinds="task", name="ship")
        async with app.database.session() as tx:
            rows = await tx.fetch("select to_jsonb(row)::text as row from ferryman.webhooks as row")
        assert added.secret.removeprefix("whsec_") not in rows[0]["row"]
        with pytest.raises(errors.SettingsInvalid, match="was added with another"):
            await other.webhooks.secret("ship")
        async with relaying(other):
            await happen(app)
            [waiting] = await settled(app, added.webhook)
        assert (waiting.attempts, receiver.calls) == (0, [])
        assert "1 webhooks have secrets of another relays.webhook_key" in caplog.text
        moved = await other.webhooks.rotate("ship")
        async with relaying(other):
            [call] = await receiver.seen(1)
        webhook.verify(call.body, call.headers, secret=moved.secret)


@pytest.mark.contract("S6", "K20")
async def test_without_a_key_no_webhook_is_added(make: Make, receiver: Receiver) -> None:
    async with make(webhook_key=None) as app, relaying(app):
        with pytest.raises(errors.SettingsInvalid, match="FERRYMAN_RELAYS__WEBHOOK_KEY"):
            await app.webhooks.add(receiver.url())
        assert await app.webhooks.list() == []
        assert await app.relays.status() == []


# Stopping


@pytest.mark.contract("K17")
async def test_a_call_that_is_under_way_at_the_end_is_handed_back_without_a_try_used(
    make: Make, receiver: Receiver
) -> None:
    receiver.answers["/"] = silence
    async with make() as app:
        added = (await app.webhooks.add(receiver.url(), kinds="task")).webhook
        async with relaying(app, grace=0.0):
            await happen(app)
            await receiver.seen(1)
        [delivery] = await owed(app, added)
        receiver.answers["/"] = status(200)
        async with relaying(app):
            [again] = await settled(app, added, state=DELIVERED)

    assert (delivery.state, delivery.attempts, delivery.leased_until) == (PENDING, 0, None)
    assert again.attempts == 1


@pytest.mark.contract("K9")
async def test_a_delivery_whose_last_sender_died_is_not_sent_for_ever(make: Make, receiver: Receiver) -> None:
    async with make(attempts=2) as app:
        added = (await app.webhooks.add(receiver.url(), kinds="task")).webhook
        await app.webhooks.pause(added.id)
        async with relaying(app):
            await happen(app)
            await settled(app, added)
        async with app.database.transaction() as tx:
            await tx.fetch("update ferryman.webhook_deliveries set attempts = 2, epoch = 2")
        await app.webhooks.resume(added.id)
        async with relaying(app):
            [dead] = await settled(app, added, state=DEAD)

    assert dead.last_error == "the last of 2 tries was not answered for"
    assert receiver.calls == []


@pytest.mark.contract("K24")
async def test_relays_come_back_when_the_database_has_cut_them_off(
    make: Make, receiver: Receiver, nats_server: NatsServer
) -> None:
    name = f"CUT{ids.new_id().hex}"  # a server is for many tests, a stream for one database
    async with make(nats_url=nats_server.url, nats="on", stream=name, prefix=name) as app, relaying(app):
        added = (await app.webhooks.add(receiver.url(), kinds="task")).webhook
        await happen(app, 2)
        await settled(app, added, 2, state=DELIVERED)
        async with app.database.session() as tx:
            cut = await tx.fetch(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where datname = current_database() and pid <> pg_backend_pid()"
            )
        await happen(app, 2)
        await settled(app, added, 4, state=DELIVERED)
        await caught_up(app, "relay.nats", "relay.webhooks")

    # Of the relay to NATS, the reader for webhooks, and one lane of the sender: the other may not have been needed.
    assert len(cut) >= 3
    assert len({call.event for call in receiver.calls}) == 4
