"""Settings: where they come from, what is refused, what is never shown."""

import dataclasses
import os
import re
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from ferryman.kernel import errors, setting, settings
from ferryman.kernel.settings import Pool, Settings, Worker

URL = "postgresql://ada:secret@db.example/app"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in an empty directory, so that no file of the machine is read."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def load(arguments: dict[str, Any] | None = None, /, **environ: str) -> Settings:
    return Settings.load(arguments, environ=environ)


def second(number: float) -> timedelta:
    return timedelta(seconds=number)


def test_the_defaults_are_those_of_the_contract() -> None:
    made = load()

    assert made == Settings()
    assert (made.database_url, made.listen_url, made.nats_url) == (None, None, None)
    assert (made.doorbell, made.tenant, made.schema) == ("postgres", "default", "ferryman")
    assert made.worker == Worker(
        concurrency=100,
        claim_max=250,
        lease=second(30),
        grace=second(20),
        poll=second(1),
        queues=None,
        watchdog_interval=second(5),
        lease_sweep=second(1),
        lanes=2,
    )
    assert made.pmo.watchdog_interval == second(5)
    assert made.tasks.timeout == second(300)
    assert made.tasks.max_retries == 3
    assert made.tasks.ends_after == timedelta(days=30)
    assert made.tasks.retention == timedelta(days=7)
    assert made.tasks.payload_limit == 1024 * 1024
    assert made.pool.size == 10


@pytest.mark.contract("S7")
def test_arguments_win_over_environment_over_file_over_defaults(elsewhere: Path) -> None:
    (elsewhere / "ferryman.toml").write_text('tenant = "file"\n[worker]\nlease = 11\nlanes = 1\nconcurrency = 1\n')

    made = load(
        {"worker": {"lease": "13s"}},
        FERRYMAN_WORKER__LEASE="12s",
        FERRYMAN_WORKER__LANES="3",
    )

    assert made.worker.lease == second(13)
    assert made.worker.lanes == 3
    assert made.worker.concurrency == 1
    assert made.tenant == "file"
    assert made.worker.claim_max == 250
    sources = made.sources()
    assert sources["worker.lease"] == ("13s", "argument")
    assert sources["worker.lanes"] == ("3", "environment FERRYMAN_WORKER__LANES")
    assert sources["worker.concurrency"] == ("1", "file ferryman.toml")
    assert sources["worker.claim_max"] == ("250", "default")


@pytest.mark.contract("S7")
@pytest.mark.contract("T20")
@pytest.mark.parametrize(
    ("key", "bad"),
    [
        ("tasks.retention", 0),
        ("tasks.retention_failed", "59s"),
        ("tasks.retention", "36501d"),
        ("log.retention", "23h"),
    ],
)
def test_what_is_kept_is_kept_for_a_time_that_can_be_meant(key: str, bad: Any) -> None:
    section, _, name = key.partition(".")

    with pytest.raises(errors.SettingsInvalid, match=rf"{key} .*expected at (least|most) "):
        load({section: {name: bad}})


def test_every_setting_has_a_source() -> None:
    sources = load().sources()

    assert {"database_url", "worker.lease", "pmo.watchdog_interval_seconds", "tasks.timeout", "relays.stream"} <= set(
        sources
    )
    assert {origin for _, origin in sources.values()} == {"default"}


def test_a_plan_of_faults_in_the_environment_is_no_setting() -> None:
    assert (
        load(FERRYMAN_FAULTS="claim.sent=kill@1", FERRYMAN_FAULTS_LOG="faults", FERRYMAN_POOL__SIZE="3").pool.size == 3
    )


def test_the_process_environment_is_read_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FERRYMAN_TENANT", "acme")

    assert Settings.load().tenant == "acme"


def test_another_file_can_be_named(elsewhere: Path) -> None:
    other = elsewhere / "other.toml"
    other.write_text("[pool]\nsize = 3\n")

    assert load(FERRYMAN_CONFIG=str(other)).pool.size == 3
    assert Settings.load(file=other, environ={}).pool.size == 3


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (None, "There is no settings file"),
        (b"[worker", "is not TOML"),
        (b"\xff", "cannot be read"),
        (b"workers = 5", r"Unknown setting workers \(file .*Did you mean worker"),
        (b"worker = 5", r"Unknown setting worker \("),
        (b"[worker.lease]\nx = 1", r"worker.lease \(file .*: expected seconds"),
    ],
)
def test_a_bad_file_is_refused_by_name(elsewhere: Path, content: bytes | None, complaint: str) -> None:
    path = elsewhere / "bad.toml"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(errors.SettingsInvalid, match=complaint):
        load(FERRYMAN_CONFIG=str(path))


@pytest.mark.contract("S7")
def test_an_unknown_key_is_refused_with_the_near_ones() -> None:
    with pytest.raises(errors.SettingsInvalid) as refused:
        load(FERRYMAN_WORKER__CONCURENCY="5")

    assert refused.value.details["near"][0] == "worker.concurrency"
    assert refused.value.message.startswith(
        "Unknown setting worker.concurency (environment FERRYMAN_WORKER__CONCURENCY). Did you mean worker.concurrency"
    )
    with pytest.raises(errors.SettingsInvalid, match=r"Unknown setting xyzzy \(argument\)\. `"):
        load({"xyzzy": 1})
    with pytest.raises(errors.SettingsInvalid, match=r"Unknown setting origins"):
        load({"origins": {}, "origins.x": 1})


@pytest.mark.parametrize(
    "variable",
    [
        *["FERRYMAN_SERVICE_HOST", "FERRYMAN_SERVICE_PORT", "FERRYMAN_SERVICE_PORT_HTTP"],
        *["FERRYMAN_PORT", "FERRYMAN_PORT_80_TCP_ADDR", "FERRYMAN_API_PORT_80_TCP"],
    ],
)
def test_what_kubernetes_puts_there_for_a_service_of_that_name_is_not_ours(variable: str) -> None:
    assert load(**{variable: "tcp://10.0.0.1:80"}) == Settings()


def test_a_setting_that_is_called_as_such_a_variable_is_ours() -> None:
    assert load(FERRYMAN_HTTP__PORT="9000").http.port == 9000


def test_an_empty_variable_and_none_mean_not_given() -> None:
    made = load({"database_url": None}, FERRYMAN_TENANT="", FERRYMAN_DATABASE_URL=URL)

    assert made.tenant == "default"
    assert made.database_url == URL


def test_a_section_may_be_given_whole() -> None:
    made = load({"worker": Worker(lease=second(9)), "pool": Pool(size=2)})

    assert made.worker.lease == second(9)
    assert made.pool.size == 2


def test_queues_are_a_list_or_names_between_commas() -> None:
    assert load(FERRYMAN_WORKER__QUEUES="mail, slow").worker.queues == ("mail", "slow")
    assert load({"worker": {"queues": ["a", "b"]}}).worker.queues == ("a", "b")


def test_the_sources_names_with_their_unit_are_kept_outside() -> None:
    made = load(FERRYMAN_PMO__WATCHDOG_INTERVAL_SECONDS="2.5")

    assert made.pmo.watchdog_interval == second(2.5)


def test_the_doorbell_is_nats_when_there_is_nats_unless_told_otherwise() -> None:
    nats = "nats://bell.example:4222"

    assert load({"nats_url": nats}).doorbell == "nats"
    assert load({"nats_url": nats, "doorbell": "none"}).doorbell == "none"
    with pytest.raises(errors.SettingsInvalid, match=r"doorbell: expected .* nats_url"):
        load({"doorbell": "nats"})


@pytest.mark.contract("K17")
@pytest.mark.parametrize(
    ("variable", "value", "complaint"),
    [
        ("WORKER__LEASE", "1.9s", "expected at least 2s, got '1.9s'"),
        ("WORKER__LEASE", "soon", 'expected seconds, or a text like "30s"'),
        ("WORKER__CONCURRENCY", "0", "expected a whole number from 1 to 100000, got '0'"),
        ("WORKER__CONCURRENCY", "many", "expected a whole number"),
        ("WORKER__CONCURRENCY", "9" * 300, "got '9{80}…'"),
        ("WORKER__GRACE", "-1", "expected at least 0s"),
        ("WORKER__POLL", "0", "expected at least 0.01s"),
        ("WORKER__QUEUES", "a,,b", "expected 1 to 200 characters"),
        ("WORKER__WATCHDOG_INTERVAL_SECONDS", "0.05", "expected at least 0.1s, or 0 for off"),
        ("TASKS__MAX_RETRIES", "-1", "expected a whole number from 0"),
        ("TASKS__PAYLOAD_LIMIT", "1.5", "expected a whole number"),
        ("POOL__SIZE", "0", "expected a whole number from 1"),
        ("TENANT", "a b", "expected 1 to 200 characters"),
        ("SCHEMA", "Ferry man", "expected 1 to 63 of a-z"),
        ("SCHEMA", "pg_mine", "not beginning with"),
        ("DOORBELL", "bell", "expected one of postgres, nats, none, got 'bell'"),
        ("DATABASE_URL", "mysql://x", "expected an address that begins with postgresql://"),
        ("DATABASE_URL", "postgresql://ada@[::1/app", "with an IPv6 address in brackets"),
        ("DATABASE_URL", "postgresql://ada@db:port/app", "expected an address such as postgresql://host:port"),
        ("DATABASE_URL", "postgresql://a:5432,b:99999/app", "expected an address such as postgresql://host:port"),
        ("NATS_URL", "nats://[::1", "expected an address such as nats://host:port"),
        ("NATS_URL", "bell.example", "expected an address that begins with nats://"),
    ],
)
def test_a_bad_value_is_refused_with_what_was_expected_and_got(variable: str, value: str, complaint: str) -> None:
    with pytest.raises(errors.SettingsInvalid, match=complaint) as refused:
        load(**{f"FERRYMAN_{variable}": value})

    key = variable.lower().replace("__", ".")
    assert refused.value.details["field"] == key
    assert refused.value.message.startswith(f"{key} (environment FERRYMAN_{variable}): expected")


@pytest.mark.parametrize("bad", [True, 1.5, None, "5x"])
def test_a_section_made_by_hand_is_checked_too(bad: Any) -> None:
    with pytest.raises(errors.SettingsInvalid, match="size: expected a whole number"):
        Pool(size=bad)
    with pytest.raises(errors.SettingsInvalid, match="queues: expected one name or more"):
        Worker(queues=())


def test_settings_cannot_be_changed_but_can_be_replaced() -> None:
    made = load()

    with pytest.raises(dataclasses.FrozenInstanceError):
        made.tenant = "other"  # type: ignore[misc]
    assert dataclasses.replace(made, tenant="other").tenant == "other"


def told_of(arguments: dict[str, Any]) -> str:
    """Return all that can be read of these settings, or of their refusal."""
    try:
        made = load(arguments)
    except errors.SettingsInvalid as refused:
        return f"{refused} {refused!r} {refused.as_dict()}"
    return f"{made!r} {made} {made.sources()}"


@pytest.mark.parametrize(
    "secretive",
    [
        "postgresql://ada:s3cret@db/app",
        "postgresql://ada:s3cret@with@at@db/app",
        "postgresql://ada:s3cret/slash@db/app",
        "postgresql://:s3cret@db/app",
        "postgresql://db/app?user=ada&password=s3cret&x=1",
        "postgresql+asyncpg://ada:s3cret@db/app",
        "ada:s3cret@db/app",
        "host=db password=s3cret user=ada",
        "nats://s3cret@bell:4222",
        "nats://a:s3cret@bell,nats://a:s3cret@other",
    ],
)
def test_a_password_is_never_shown(secretive: str) -> None:
    assert "s3cret" not in setting.mask(secretive)
    assert "***" in setting.mask(secretive)
    for key in ("database_url", "nats_url"):
        told = told_of({key: secretive})
        assert "s3cret" not in told
        assert "***" in told


def test_masking_keeps_the_rest_readable() -> None:
    assert setting.mask(URL) == "postgresql://ada:***@db.example/app"
    assert setting.mask("postgresql://db:5432/app") == "postgresql://db:5432/app"


def test_a_field_without_a_kind_cannot_be_read() -> None:
    (worker,) = [part for part in dataclasses.fields(Settings) if part.name == "worker"]

    with pytest.raises(TypeError, match="worker is not a setting"):
        setting.read(worker, 1, told="worker")


def test_no_slow_library_is_imported_for_the_settings() -> None:
    code = f"import sys, {settings.__name__}; print('pydantic' in sys.modules)"
    source = Path(settings.__file__).parents[2]

    told = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )

    assert told.stdout == "False\n"


@pytest.mark.contract("S6", "S7")
def test_a_secret_is_never_shown() -> None:
    key = "a key that nobody can guess, really"
    settings = load(FERRYMAN_RELAYS__WEBHOOK_KEY=key)

    assert settings.relays.webhook_key == key
    assert settings.sources()["relays.webhook_key"] == ("***", "environment FERRYMAN_RELAYS__WEBHOOK_KEY")
    assert load().sources()["relays.webhook_key"] == ("none", "default")
    assert key not in repr(settings) + repr(settings.relays)
    with pytest.raises(errors.SettingsInvalid, match="at least 32 characters") as refused:
        load(FERRYMAN_RELAYS__WEBHOOK_KEY="too short")
    assert "too short" not in str(refused.value)


@pytest.mark.parametrize("networks", ["10.0.0.0/33", "everywhere", "10.0.0.1/8"])
def test_networks_that_are_none_are_refused(networks: str) -> None:
    with pytest.raises(errors.SettingsInvalid, match=re.escape("networks such as 127.0.0.0/8,10.1.0.0/16")):
        load(FERRYMAN_RELAYS__PRIVATE_NETWORKS=networks)
    assert load(FERRYMAN_RELAYS__PRIVATE_NETWORKS="127.0.0.0/8, ::1").relays.private_networks == (
        "127.0.0.0/8",
        "::1/128",
    )


def test_a_relay_to_nats_needs_an_address() -> None:
    with pytest.raises(errors.SettingsInvalid, match="nats_url"):
        load(FERRYMAN_RELAYS__NATS="on")
    with pytest.raises(errors.SettingsInvalid, match="letters, digits"):
        load(FERRYMAN_RELAYS__STREAM="a.b")
