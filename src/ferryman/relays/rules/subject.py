"""The subject of an event on NATS (A15).

    fm.{version}.{tenant}.{channel}.{cmd|evt|str}.{component}.{target}.{suffix}

Each place is one token, so that whoever listens may put a star there. What is not a token is spelled as one: every byte but
letters, digits, `_`, `-` and `:` becomes `=` and two hex digits. No two names are spelled alike.
"""

from __future__ import annotations

from typing import Final

from ferryman.relays.model import Address

VERSION: Final = "v1"
EVENTS: Final = "evt"
STREAMS: Final = "str"
_PLAIN: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-:")


def token(text: str) -> str:
    """Spell a text as one token; the empty one is a lone `=`."""
    spelled = "".join(
        chr(byte) if byte in _PLAIN else f"={byte:02X}" for byte in text.encode("utf-8", errors="replace")
    )
    return spelled or "="


def read(spelled: str) -> str:
    """Return the text that a token spells."""
    if spelled == "=":
        return ""
    first, *rest = spelled.split("=")
    return b"".join([first.encode(), *(bytes([int(part[:2], 16)]) + part[2:].encode() for part in rest)]).decode()


def subject(address: Address, *, tenant: str, prefix: str = "fm") -> str:
    """Return the subject of an event of this tenant."""
    kind = STREAMS if address.volatile else EVENTS
    places = (tenant, address.channel, kind, address.component, address.target, address.suffix)
    return ".".join([prefix, VERSION, *map(token, places)])


def kept(prefix: str = "fm") -> str:
    """Return what the stream keeps: the events of all tenants, and nothing volatile."""
    return f"{prefix}.{VERSION}.*.*.{EVENTS}.>"


def covers(pattern: str, wanted: str) -> bool:
    """Say whether whatever fits `wanted` fits the pattern too; both may hold stars, and `>` at the end."""
    have, want = pattern.split("."), wanted.split(".")
    for place, token_ in enumerate(have):
        if token_ == ">":
            return place < len(want)
        if place >= len(want) or want[place] == ">" or (token_ not in ("*", want[place])):
            return False
    return len(have) == len(want)
