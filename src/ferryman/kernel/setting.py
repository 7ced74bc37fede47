"""One setting: how it is read, checked and shown.

A field is annotated with its kind, as in `Annotated[int, count(most=100)]`. The kind holds a
reader, which takes what a person wrote or a program passed, and returns the value or raises
ValueError with what was expected.
"""

import re
from collections.abc import Callable
from dataclasses import Field, dataclass, fields
from datetime import timedelta
from ipaddress import ip_address, ip_network
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from ferryman.kernel import duration as durations
from ferryman.kernel import errors, ids

HIDDEN: Final = "***"
_LONGEST_SHOWN: Final = 80
_SCHEMA = re.compile(r"(?!pg_)[a-z_][a-z0-9_]{0,62}")
# Kubernetes gives a pod such variables for each service: not ours, whatever the service is called.
_LINK = re.compile(r"_(SERVICE_HOST$|SERVICE_PORT(_\w|$)|PORT(_\d+_(TCP|UDP|SCTP)(_\w|$)|$))")
_USER = re.compile(r"(^|//)[^:/@\s]*:(?!//)")
_TOKEN = re.compile(r"((?:nats|tls|wss?)://)[^:/@]+@")
_TOKEN_OF_NATS = re.compile(r"[A-Za-z0-9_-]{1,60}")
_HOST = re.compile(r"[a-z0-9._-]{1,253}|\[[0-9a-f:.]{2,45}\]")
_PARAMETER = re.compile(r"(?i)((?:password|sslpassword)=)[^&\s]*")


@dataclass(frozen=True, slots=True)
class Kind:
    """How a setting is read, the name people write for it where that is not the field's, and whether it is hidden."""

    reader: Callable[[Any], Any]
    key: str | None = None
    hidden: bool = False


@dataclass(frozen=True, kw_only=True)
class Section:
    """Settings that belong together; making one checks it."""

    def __post_init__(self) -> None:
        for part in fields(self):
            if kind(part) is not None:
                value = read(part, getattr(self, part.name), told=key(part))
                object.__setattr__(self, part.name, value)


def kind(part: Field[Any]) -> Kind | None:
    """Return the kind a field is annotated with; a section or a note has none."""
    for told in getattr(part.type, "__metadata__", ()):
        if isinstance(told, Kind):
            return told
    return None


def key(part: Field[Any]) -> str:
    """Return the name people write for a field."""
    found = kind(part)
    return found.key if found and found.key else part.name


def read(part: Field[Any], value: Any, *, told: str) -> Any:
    """Return the value of a field; `told` is how an error names it."""
    found = kind(part)
    if found is None:
        raise TypeError(f"{part.name} is not a setting")
    try:
        return found.reader(value)
    except ValueError as wrong:
        got = HIDDEN if found.hidden else show(value, quoted=True)
        raise refusal(told, str(wrong), got) from None


def refusal(told: str, expected: str, got: str) -> errors.SettingsInvalid:
    """Return the error that says what was expected and what was got."""
    name = told.partition(" ")[0]
    return errors.SettingsInvalid(f"{told}: expected {expected}, got {got}.", field=name)


def show(value: Any, *, quoted: bool = False) -> str:
    """Return a value for people, without its secrets."""
    if isinstance(value, timedelta):
        return durations.show(value)
    if isinstance(value, tuple):
        return ",".join(value)
    if value is None:
        return "none"
    text = mask(value if isinstance(value, str) else repr(value))
    if len(text) > _LONGEST_SHOWN and quoted:
        text = text[:_LONGEST_SHOWN] + "…"
    return repr(text) if quoted and isinstance(value, str) else text


def mask(text: str) -> str:
    """Return a URL or connection string with every password in it hidden."""
    # Up to the last @: a password may hold one that nobody escaped.
    secretive, at, rest = text.rpartition("@")
    if at and (user := _USER.search(secretive)):
        text = f"{secretive[: user.end()]}***@{rest}"
    text = _TOKEN.sub(r"\1***@", text)
    return _PARAMETER.sub(r"\1***", text)


def is_link(variable: str) -> bool:
    """Say whether an environment variable was put there by Kubernetes or Docker links."""
    return _LINK.search(variable) is not None


# The kinds


def count(*, least: int = 1, most: int) -> Kind:
    """Declare a whole number."""
    expected = f"a whole number from {least} to {most}"

    def read_count(value: Any) -> int:
        if isinstance(value, str) and re.fullmatch(r"\s*-?[0-9]{1,20}\s*", value):
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise ValueError(expected)
        return value

    return Kind(read_count)


def duration(*, least: timedelta, most: timedelta = timedelta.max, key: str | None = None, off: bool = False) -> Kind:
    """Declare a length of time; with `off`, 0 or less is allowed too and switches something off."""

    def read_duration(value: Any) -> timedelta:
        length = durations.parse(value)
        if length < least and not (off and length <= timedelta(0)):
            raise ValueError(f"at least {durations.show(least)}" + (", or 0 for off" if off else ""))
        if length > most:
            raise ValueError(f"at most {durations.show(most)}")
        return length

    return Kind(read_duration, key=key)


def name() -> Kind:
    """Declare a name."""
    return Kind(_read_name)


def names() -> Kind:
    """Declare a list of names, which in the environment is separated by commas; None where nobody has said any."""

    def read_names(value: Any) -> tuple[str, ...] | None:
        if value is None:
            return None
        listed = value.split(",") if isinstance(value, str) else value
        if not isinstance(listed, list | tuple) or not listed:
            raise ValueError("one name or more")
        return tuple(_read_name(one.strip() if isinstance(one, str) else one) for one in listed)

    return Kind(read_names)


def choice(*allowed: str) -> Kind:
    """Declare one of some words; empty until something else decides."""

    def read_choice(value: Any) -> str:
        if value != "" and value not in allowed:
            raise ValueError(f"one of {', '.join(allowed)}")
        return str(value)

    return Kind(read_choice)


def schema() -> Kind:
    """Declare the name of a PostgreSQL schema, used without quotes."""

    def read_schema(value: Any) -> str:
        if not isinstance(value, str) or not _SCHEMA.fullmatch(value):
            raise ValueError("1 to 63 of a-z, 0-9 and _, not beginning with a digit or pg_")
        return value

    return Kind(read_schema)


def url(*schemes: str) -> Kind:
    """Declare an address, or none."""

    def read_url(value: Any) -> str | None:
        if value is None:
            return None
        if not isinstance(value, str) or value.partition("://")[0] not in schemes:
            raise ValueError(f"an address that begins with {schemes[0]}://")
        if not _is_url(value):
            raise ValueError(f"an address such as {schemes[0]}://host:port, with an IPv6 address in brackets")
        return value

    return Kind(read_url)


def _is_url(value: str) -> bool:
    """Tell whether hosts and ports can be read; of several hosts, as PostgreSQL knows them, each has its own port."""
    try:
        hosts = urlsplit(value).netloc.rpartition("@")[2].split(",")
        return all(urlsplit(f"//{unquote(host)}").port != 0 for host in hosts)
    except ValueError:
        return False


def address() -> Kind:
    """Declare an address of this machine to listen on: an IP address, or localhost."""

    def read_address(value: Any) -> str:
        try:
            return "127.0.0.1" if value == "localhost" else str(ip_address(value))
        except ValueError:
            raise ValueError("an IP address such as 127.0.0.1, or localhost") from None

    return Kind(read_address)


def networks() -> Kind:
    """Declare a list of networks such as 10.1.0.0/16, which in the environment is separated by commas."""

    def read_networks(value: Any) -> tuple[str, ...]:
        listed = value.split(",") if isinstance(value, str) else value
        try:
            return tuple(str(ip_network(each.strip() if isinstance(each, str) else each)) for each in listed)
        except (ValueError, TypeError):
            raise ValueError("networks such as 127.0.0.0/8,10.1.0.0/16") from None

    return Kind(read_networks)


def host_names() -> Kind:
    """Declare names of hosts, such as ferry.example.com, which in the environment are separated by commas."""

    def read_hosts(value: Any) -> tuple[str, ...]:
        listed = value.split(",") if isinstance(value, str) else value
        try:
            read = tuple(each.strip().lower() for each in listed)
        except (AttributeError, TypeError):
            read = ("",)
        if not all(_HOST.fullmatch(each) for each in read):
            raise ValueError("names of hosts without a port, such as ferry.example.com")
        return read

    return Kind(read_hosts)


def secret(*, least: int) -> Kind:
    """Declare a secret, which is never shown, or none."""

    def read_secret(value: Any) -> str | None:
        if value is not None and (not isinstance(value, str) or len(value) < least):
            raise ValueError(f"a text of at least {least} characters that nobody can guess")
        return value

    return Kind(read_secret, hidden=True)


def token() -> Kind:
    """Declare a word that stands in a subject of NATS."""

    def read_token(value: Any) -> str:
        if not isinstance(value, str) or not _TOKEN_OF_NATS.fullmatch(value):
            raise ValueError("1 to 60 letters, digits, _ and -")
        return value

    return Kind(read_token)


def _read_name(value: Any) -> str:
    try:
        return ids.check_name(value, "name")
    except errors.TaskInvalidRequest:
        raise ValueError(f"1 to {ids.LONGEST} characters of letters, digits, _ . : -") from None
