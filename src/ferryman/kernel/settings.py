"""Settings: one frozen value, checked once when it is made, that knows where each part came from.

`load` reads, first wins: arguments, the environment (`FERRYMAN_WORKER__LEASE=10s`), a TOML file
(`FERRYMAN_CONFIG`, else `ferryman.toml` in the working directory), defaults. An unknown key is an
error that names the near ones. Durations are timedelta here, and seconds or a text like "30s"
outside; keys that end in `_seconds` keep the names of the sources. Passwords are never shown.

By hand rather than with pydantic-settings: that import alone takes as long as all of ours may.
"""

import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import Field, dataclass, field, fields, is_dataclass
from datetime import timedelta
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Final, Self, TypeAlias

from ferryman.kernel import errors, faults, payload, setting
from ferryman.kernel.lease import SHORTEST
from ferryman.kernel.setting import (
    HIDDEN,
    Section,
    address,
    choice,
    count,
    duration,
    host_names,
    name,
    names,
    networks,
    secret,
    token,
    url,
)

PREFIX: Final = "FERRYMAN_"
CONFIG: Final = "FERRYMAN_CONFIG"
FILE: Final = "ferryman.toml"
DOORBELLS: Final = ("postgres", "nats", "none")


NOTHING: Final = timedelta(0)
TENTH: Final = timedelta(seconds=0.1)
MINUTE: Final = timedelta(minutes=1)
CENTURY: Final = timedelta(days=36_500)  # as good as for ever, and still a time that PostgreSQL can subtract


def _seconds(name: str) -> setting.Kind:
    """Declare a time that the sources count in seconds; 0 or less switches its rule off, where another rule ends the state."""
    return duration(least=-CENTURY, most=CENTURY, key=f"{name}_seconds")


# The sources' name; inside it is a timedelta and needs no unit.
Interval: TypeAlias = Annotated[timedelta, duration(least=TENTH, key="watchdog_interval_seconds", off=True)]
INTERVAL: Final = timedelta(seconds=5)
PostgresUrl: TypeAlias = Annotated[str | None, url("postgresql", "postgres")]


@dataclass(frozen=True, kw_only=True)
class Worker(Section):
    """What one worker process does at once, and how long it holds on."""

    concurrency: Annotated[int, count(most=100_000)] = 100
    claim_max: Annotated[int, count(most=10_000)] = 250
    lease: Annotated[timedelta, duration(least=SHORTEST)] = timedelta(seconds=30)
    grace: Annotated[timedelta, duration(least=NOTHING)] = timedelta(seconds=20)
    poll: Annotated[timedelta, duration(least=timedelta(milliseconds=10))] = timedelta(seconds=1)
    # None: the default one, and those that the app declares.
    queues: Annotated[tuple[str, ...] | None, names()] = None
    watchdog_interval: Interval = INTERVAL
    lease_sweep: Annotated[timedelta, duration(least=TENTH, key="lease_sweep_seconds")] = timedelta(seconds=1)
    lanes: Annotated[int, count(most=64)] = 2
    inbox_processing_timeout: Annotated[timedelta, _seconds("inbox_processing_timeout")] = timedelta(seconds=300)
    suspend_timeout: Annotated[timedelta, _seconds("suspend_timeout")] = timedelta(seconds=30)

    @property
    def watchdog_pace(self) -> timedelta:
        """The interval of what the setting cannot switch off."""
        return self.watchdog_interval if self.watchdog_interval > NOTHING else INTERVAL


@dataclass(frozen=True, kw_only=True)
class Pmo(Section):
    """What the watchdog of agents and batches does."""

    watchdog_interval: Interval = INTERVAL
    dispatched_retry: Annotated[timedelta, _seconds("dispatched_retry")] = timedelta(seconds=10)
    dispatched_timeout: Annotated[timedelta, _seconds("dispatched_timeout")] = timedelta(seconds=30)
    active_reap: Annotated[timedelta, _seconds("active_reap")] = timedelta(seconds=300)
    pending_wakeup: Annotated[timedelta, _seconds("pending_wakeup")] = timedelta(seconds=5)
    pending_wakeup_skip: Annotated[timedelta, _seconds("pending_wakeup_skip")] = timedelta(seconds=300)
    fork_join_max_tasks: Annotated[int, count(most=10_000)] = 256
    # Every batch has a deadline: there is no way to say that one has none.
    fork_join_default_deadline: Annotated[
        timedelta, duration(least=timedelta(milliseconds=1), most=CENTURY, key="fork_join_default_deadline_seconds")
    ] = timedelta(seconds=900)
    batch_dispatch_concurrency: Annotated[int, count(most=10_000)] = 128
    # Of batches that have ended.
    retention: Annotated[timedelta, duration(least=MINUTE, most=CENTURY)] = timedelta(days=30)

    @property
    def watchdog_pace(self) -> timedelta:
        """The interval of what the setting cannot switch off."""
        return self.watchdog_interval if self.watchdog_interval > NOTHING else INTERVAL


@dataclass(frozen=True, kw_only=True)
class Agents(Section):
    """What a turn gets when its creator does not say, and how deep turns may ask for turns."""

    wall_time: Annotated[timedelta, duration(least=timedelta(seconds=1), most=CENTURY)] = timedelta(hours=1)
    queued_timeout: Annotated[timedelta, duration(least=timedelta(seconds=1), most=CENTURY)] = timedelta(days=1)
    max_recursion_depth: Annotated[int, count(most=1000)] = 20
    # How many handlers of waiting turns a worker keeps, so that they go on without a replay.
    kept_handlers: Annotated[int, count(least=0, most=100_000)] = 100
    # Of turns that have ended, with their cards.
    retention: Annotated[timedelta, duration(least=MINUTE, most=CENTURY)] = timedelta(days=30)


@dataclass(frozen=True, kw_only=True)
class Tasks(Section):
    """What a task gets when its creator does not say, and how long it is kept when it has ended."""

    timeout: Annotated[timedelta, duration(least=timedelta(milliseconds=1))] = timedelta(minutes=5)
    max_retries: Annotated[int, count(least=0, most=10_000)] = 3
    ends_after: Annotated[timedelta, duration(least=timedelta(seconds=1))] = timedelta(days=30)
    # Not 0, which could be meant as "for ever".
    retention: Annotated[timedelta, duration(least=MINUTE, most=CENTURY)] = timedelta(days=7)
    retention_failed: Annotated[timedelta, duration(least=MINUTE, most=CENTURY)] = timedelta(days=30)
    payload_limit: Annotated[int, count(most=128 * 1024 * 1024)] = payload.LIMIT


@dataclass(frozen=True, kw_only=True)
class Commands(Section):
    """How long a command may take as a whole, and how long what nobody knows is waited for."""

    deadline: Annotated[timedelta, duration(least=timedelta(seconds=1))] = timedelta(days=1)
    # As long as a worker with new code may need to come up beside one that lives.
    unknown_after: Annotated[timedelta, duration(least=NOTHING, key="unknown_after_seconds")] = timedelta(seconds=30)
    retention: Annotated[timedelta, duration(least=MINUTE, most=CENTURY)] = timedelta(days=30)


@dataclass(frozen=True, kw_only=True)
class Ingest(Section):
    """How ingestion plans and executes."""

    lease: Annotated[timedelta, duration(least=SHORTEST)] = timedelta(seconds=60)
    concurrency: Annotated[int, count(most=10_000)] = 8
    partition_concurrency: Annotated[int, count(most=10_000)] = 4
    queued_max: Annotated[int, count(most=100_000)] = 50
    safety_lag: Annotated[timedelta, duration(least=NOTHING)] = timedelta(minutes=10)
    first_window: Annotated[timedelta, duration(least=MINUTE)] = timedelta(days=1)
    max_attempts: Annotated[int, count(most=1000)] = 3
    max_claims: Annotated[int, count(most=10_000)] = 10
    ends_after: Annotated[timedelta, duration(least=MINUTE, most=CENTURY)] = timedelta(days=30)
    breaker_failures: Annotated[int, count(most=1000)] = 3
    breaker_pause: Annotated[timedelta, duration(least=TENTH)] = timedelta(seconds=60)
    # Of plans that have ended, with all that came of them.
    retention: Annotated[timedelta, duration(least=MINUTE, most=CENTURY)] = timedelta(days=30)


@dataclass(frozen=True, kw_only=True)
class Log(Section):
    """How long the log is kept, by whole days; a day that a consumer has still to read stays."""

    retention: Annotated[timedelta, duration(least=timedelta(days=1), most=CENTURY)] = timedelta(days=60)


@dataclass(frozen=True, kw_only=True)
class Pool(Section):
    """Connections for callers; the worker's own lanes are beside it."""

    size: Annotated[int, count(most=1000)] = 10


@dataclass(frozen=True, kw_only=True)
class Relays(Section):
    """The log to the outside: to NATS, and to webhooks."""

    nats: Annotated[str, choice("on", "off")] = "off"
    webhooks: Annotated[str, choice("on", "off")] = "on"
    # The name of each reader of the log begins with it.
    consumer: Annotated[str, name()] = "relay"
    stream: Annotated[str, token()] = "FERRYMAN"
    prefix: Annotated[str, token()] = "fm"
    kept: Annotated[timedelta, duration(least=MINUTE, most=CENTURY)] = timedelta(days=7)
    # For so long the broker knows an event again and drops a repeat.
    repeats: Annotated[timedelta, duration(least=timedelta(seconds=1))] = timedelta(minutes=10)
    webhook_key: Annotated[str | None, secret(least=32)] = field(default=None, repr=False)
    concurrency: Annotated[int, count(most=1000)] = 64
    concurrency_of_one: Annotated[int, count(most=100)] = 4
    attempts: Annotated[int, count(most=100)] = 10
    timeout: Annotated[timedelta, duration(least=TENTH, most=timedelta(minutes=5))] = timedelta(seconds=10)
    ends_after: Annotated[timedelta, duration(least=timedelta(seconds=1), most=CENTURY)] = timedelta(days=1)
    private_networks: Annotated[tuple[str, ...], networks()] = ()
    retention: Annotated[timedelta, duration(least=MINUTE, most=CENTURY)] = timedelta(days=7)
    retention_dead: Annotated[timedelta, duration(least=MINUTE, most=CENTURY)] = timedelta(days=30)


@dataclass(frozen=True, kw_only=True)
class Http(Section):
    """The server of HTTP and the dashboard."""

    host: Annotated[str, address()] = "127.0.0.1"
    port: Annotated[int, count(least=0, most=65535)] = 8420
    body_limit: Annotated[int, count(least=1024, most=256 * 1024 * 1024)] = 4 * 1024 * 1024
    # Requests a second of one caller, and how many it may save up.
    rate: Annotated[int, count(most=1_000_000)] = 5000
    burst: Annotated[int, count(most=1_000_000)] = 10_000
    # Streams of events that are open at once, in all and of one caller.
    streams: Annotated[int, count(most=100_000)] = 2000
    streams_of_one: Annotated[int, count(most=100_000)] = 200
    # Connections that are open at once; never more than three quarters of the descriptors that the process may have.
    connections: Annotated[int, count(most=1_000_000)] = 4000
    # How long the head of a request may take to come.
    head_time: Annotated[timedelta, duration(least=TENTH, most=timedelta(hours=1))] = timedelta(seconds=10)
    # How long a request may take; longer than any wait that one may ask for.
    request_time: Annotated[timedelta, duration(least=TENTH, most=timedelta(days=1))] = timedelta(minutes=2)
    # For so long at most a token that was revoked is let in where a ring was lost.
    token_kept: Annotated[timedelta, duration(least=NOTHING, most=timedelta(minutes=5))] = timedelta(seconds=5)
    # How long somebody who signed in stays so.
    session: Annotated[timedelta, duration(least=MINUTE, most=timedelta(days=90))] = timedelta(hours=12)
    # The names that the server answers to, where there are tokens; none: to every name.
    hosts: Annotated[tuple[str, ...], host_names()] = ()
    # Proxies in front of the server, whose word counts for who asks and whether by https.
    proxies: Annotated[tuple[str, ...], networks()] = ()


@dataclass(frozen=True, kw_only=True, repr=False)
class Settings(Section):
    """Everything that can be set. `database_url` None means none was given."""

    database_url: PostgresUrl = None
    listen_url: PostgresUrl = None
    nats_url: Annotated[str | None, url("nats", "tls", "ws", "wss")] = None
    doorbell: Annotated[str, choice(*DOORBELLS)] = ""
    ring_within: Annotated[str, choice("on", "off")] = "on"
    tenant: Annotated[str, name()] = "default"
    schema: Annotated[str, setting.schema()] = "ferryman"
    worker: Worker = field(default_factory=Worker)
    pmo: Pmo = field(default_factory=Pmo)
    agents: Agents = field(default_factory=Agents)
    tasks: Tasks = field(default_factory=Tasks)
    commands: Commands = field(default_factory=Commands)
    ingest: Ingest = field(default_factory=Ingest)
    log: Log = field(default_factory=Log)
    pool: Pool = field(default_factory=Pool)
    relays: Relays = field(default_factory=Relays)
    http: Http = field(default_factory=Http)
    origins: Mapping[str, str] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.doorbell:
            chosen = "nats" if self.nats_url else "postgres"
            object.__setattr__(self, "doorbell", chosen)
        if self.doorbell == "nats" and not self.nats_url:
            raise setting.refusal("doorbell", "postgres or none, or a nats_url beside it", "nats")
        if self.relays.nats == "on" and not self.nats_url:
            raise setting.refusal("relays.nats", "off, or a nats_url beside it", "on")

    @classmethod
    def load(
        cls,
        arguments: Mapping[str, Any] | None = None,
        *,
        environ: Mapping[str, str] | None = None,
        file: Path | None = None,
    ) -> Self:
        """Return the settings of this process; `arguments` may be nested by section."""
        around = os.environ if environ is None else environ
        given: dict[str, tuple[Any, str]] = {}
        for found in (_from_file(file, around), _from_environment(around), _flat(arguments or {})):
            given |= found
        return cls._made(given)

    @classmethod
    def _made(cls, given: Mapping[str, tuple[Any, str]]) -> Self:
        sections: dict[type, dict[str, Any]] = {}
        for key, part, owner in _parts():
            if key in given:
                value, origin = given[key]
                read = setting.read(part, value, told=f"{key} ({origin})")
                sections.setdefault(owner, {})[part.name] = read
        inner: dict[str, Any] = {
            part.name: part.type(**sections.get(part.type, {}))
            for part in fields(cls)
            if isinstance(part.type, type) and is_dataclass(part.type)
        }
        origins = {key: origin for key, (_, origin) in given.items()}
        return cls(**sections.get(Settings, {}), **inner, origins=origins)

    def sources(self) -> dict[str, tuple[str, str]]:
        """Return for every key its value as shown to people, and where it came from."""
        shown = {}
        for key, part, owner in _parts():
            holder = self if owner is Settings else getattr(self, key.partition(".")[0])
            value = getattr(holder, part.name)
            hidden = value is not None and (kind := setting.kind(part)) is not None and kind.hidden
            shown[key] = (HIDDEN if hidden else setting.show(value), self.origins.get(key, "default"))
        return shown

    def __repr__(self) -> str:
        told = ", ".join(f"{key}={value}" for key, (value, _) in self.sources().items())
        return f"Settings({told})"


def _parts() -> Iterator[tuple[str, Field[Any], type]]:
    """Give every key with its field and the class that holds it."""
    for part in fields(Settings):
        if isinstance(part.type, type) and is_dataclass(part.type):
            for inner in fields(part.type):
                yield f"{part.name}.{setting.key(inner)}", inner, part.type
        elif setting.kind(part) is not None:
            yield part.name, part, Settings


def _flat(given: Mapping[str, Any], origin: str = "argument") -> dict[str, tuple[Any, str]]:
    """Return nested values by dotted key; None means not given."""
    flat: dict[str, Any] = {}
    for key, value in given.items():
        if isinstance(value, Mapping):
            flat |= {f"{key}.{inner}": item for inner, item in value.items()}
        elif isinstance(value, setting.Section):
            held = {setting.key(part): getattr(value, part.name) for part in fields(value)}
            flat |= {f"{key}.{inner}": item for inner, item in held.items()}
        else:
            flat[key] = value
    _refuse_unknown(flat, origin)
    return {key: (value, origin) for key, value in flat.items() if value is not None}


def _from_environment(environ: Mapping[str, str]) -> dict[str, tuple[Any, str]]:
    found = {}
    known = {key for key, _, _ in _parts()}
    for variable, value in environ.items():
        if not variable.startswith(PREFIX) or variable in (CONFIG, *faults.VARIABLES):
            continue
        key = variable.removeprefix(PREFIX).lower().replace("__", ".")
        # A setting may be called as a link is: http.port.
        if key not in known and setting.is_link(variable):
            continue
        _refuse_unknown([key], f"environment {variable}")
        # An empty variable is how many tools say "not set".
        if value != "":
            found[key] = (value, f"environment {variable}")
    return found


def _from_file(file: Path | None, environ: Mapping[str, str]) -> dict[str, tuple[Any, str]]:
    named = file or (Path(environ[CONFIG]) if environ.get(CONFIG) else None)
    path = named or Path(FILE)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as cause:
        if named is None:
            return {}
        raise errors.SettingsInvalid(f"There is no settings file {path}.") from cause
    except (OSError, UnicodeDecodeError) as cause:
        message = f"The settings file {path} cannot be read: {cause}."
        raise errors.SettingsInvalid(message) from cause
    try:
        return _flat(tomllib.loads(text), f"file {path}")
    except tomllib.TOMLDecodeError as cause:
        raise errors.SettingsInvalid(f"The settings file {path} is not TOML: {cause}.") from cause


def _refuse_unknown(keys: Iterable[str], origin: str) -> None:
    known = [key for key, _, _ in _parts()]
    for key in keys:
        if key not in known:
            near = get_close_matches(key, known, n=3)
            hint = f" Did you mean {' or '.join(near)}?" if near else ""
            message = f"Unknown setting {key} ({origin}).{hint}"
            raise errors.SettingsInvalid(message, field=key, near=near)
