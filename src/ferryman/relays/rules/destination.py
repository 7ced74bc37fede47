"""Where a webhook may lead (S6).

A URL is checked when it is given; what it leads to is checked again when it is called, because a name can be made to lead
elsewhere in between. Refused is every address that is not of the public internet, also when it hides in an address of
version 6, unless it lies in a network that the settings allow.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, TypeAlias
from urllib.parse import urlsplit

from ferryman.kernel import errors

Network: TypeAlias = IPv4Network | IPv6Network
LONGEST: Final = 2000
_SCHEMES: Final = ("https", "http")
_TRANSLATED: Final = ip_network("64:ff9b::/96")
_COMPATIBLE: Final = ip_network("::/96")
# What some releases of Python take for public.
_MORE: Final = tuple(
    ip_network(each)
    for each in ("192.0.0.0/24", "192.88.99.0/24", "64:ff9b:1::/48", "100::/64", "2001::/23", "fec0::/10")
)


def check_url(url: object, *, allowed: Iterable[Network] = ()) -> str:
    """Return a URL that a webhook may have."""
    if not isinstance(url, str) or not url.isprintable() or any(each.isspace() for each in url):
        raise _refusal("a URL such as https://example.com/hook", url)
    if len(url) > LONGEST:
        raise _refusal(f"at most {LONGEST} characters", f"{len(url)}")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise _refusal("a URL such as https://example.com/hook", url) from None
    if parts.scheme not in _SCHEMES or not parts.hostname:
        raise _refusal("a URL that begins with https:// or http:// and names a host", url)
    if parts.username is not None or parts.password is not None:
        raise _refusal("a URL without a user or password; the signature tells who calls", "one with them")
    if parts.fragment or port == 0:
        raise _refusal("a URL without a fragment and with a port that can be called", url)
    literal = address(parts.hostname)
    if literal is not None and not reachable(literal, allowed=allowed):
        raise errors.WebhookInvalid(f"url: {literal} is {PRIVATE}.", field="url")
    return url


PRIVATE: Final = "not an address of the public internet, and no network in relays.private_networks holds it"


def address(text: str) -> IPv4Address | IPv6Address | None:
    """Read an address; None for a name."""
    try:
        return ip_address(text.partition("%")[0])
    except ValueError:
        return None


def reachable(found: IPv4Address | IPv6Address, *, allowed: Iterable[Network] = ()) -> bool:
    """Say whether this address may be called: it is public, or lies in a network that is allowed."""
    hidden = _hidden(found)
    if any(each.version == network.version and each in network for network in allowed for each in (found, *hidden)):
        return True
    return all(_public(each) for each in (found, *hidden))


def _public(found: IPv4Address | IPv6Address) -> bool:
    if isinstance(found, IPv6Address) and (found.ipv4_mapped or found in _TRANSLATED):
        return True  # it is as public as what hides in it
    return (
        found.is_global
        and not (found.is_multicast or found.is_reserved or found.is_unspecified or found.is_link_local)
        and not any(found.version == network.version and found in network for network in _MORE)
    )


def _hidden(found: IPv4Address | IPv6Address) -> list[IPv4Address]:
    """Return the addresses of version 4 that one of version 6 leads to."""
    if isinstance(found, IPv4Address):
        return []
    hidden = [each for each in (found.ipv4_mapped, found.sixtofour, *(found.teredo or ())) if each is not None]
    if found in _TRANSLATED or (found in _COMPATIBLE and int(found) > 1):
        hidden.append(IPv4Address(int(found) & 0xFFFFFFFF))
    return hidden


def _refusal(expected: str, got: object) -> errors.WebhookInvalid:
    told = ascii(got) if isinstance(got, str) else type(got).__name__
    return errors.WebhookInvalid(f"url: expected {expected}, got {told[:200]}.", field="url")
