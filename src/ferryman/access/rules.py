"""How a token is spelled, what of it is kept, and what may be asked for.

A token is `fm_<id>_<secret>`: the id finds its row, the secret is 192 random bits. What is kept is the SHA-256 of the
whole: nobody guesses 192 bits, so a slow hash would protect nothing and cost every request. A session's secret is another
192 bits, kept the same way; the word that forms must bring along (CSRF) is made of it, and so needs no place of its own.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from ferryman.access.model import ALL, NewToken, Scope
from ferryman.kernel import duration, errors, ids

SECRET_BYTES: Final = 24
LONGEST: Final = timedelta(days=36_500)
SHORTEST: Final = timedelta(seconds=1)

_TOKEN: Final = re.compile(r"fm_([0-9a-f]{32})_[0-9a-f]{48}", re.ASCII)
_SECRET: Final = re.compile(r"[0-9a-f]{48}", re.ASCII)


def draft(
    name: object, *, tenant: object, scopes: Iterable[object] | str, lasts: timedelta | float | str | None = None
) -> NewToken:
    """Check what is asked for, and make the token."""
    id = ids.new_id()
    text = f"fm_{id.hex}_{secrets.token_hex(SECRET_BYTES)}"
    return NewToken(id, _tenant(tenant), _name(name, "name"), _scopes(scopes), _lasts(lasts), text, digest(text))


def _name(value: object, field: str) -> str:
    try:
        return ids.check_name(value, field)
    except errors.TaskInvalidRequest as wrong:
        raise errors.TokenInvalid(wrong.message, field=field) from None


def _tenant(value: object) -> str:
    return ALL if value == ALL else _name(value, "tenant")


def _scopes(given: Iterable[object] | str) -> tuple[Scope, ...]:
    listed = [given] if isinstance(given, str) else list(given)
    known = [each.value for each in Scope]
    wrong = [each for each in listed if each not in known]
    if wrong or not listed:
        got = ascii(wrong[0])[:60] if wrong else "none"
        raise errors.TokenInvalid(f"scopes: expected some of {', '.join(known)}, got {got}.", field="scopes")
    return tuple(scope for scope in Scope if scope in listed)


def _lasts(given: Any) -> timedelta | None:
    if given is None:
        return None
    try:
        lasts = duration.parse(given)
    except ValueError:
        lasts = timedelta(0)
    if not SHORTEST <= lasts <= LONGEST:
        raise errors.TokenInvalid(f"lasts: expected a time such as 90d or 12h, got {ascii(given)[:60]}.", field="lasts")
    return lasts


def digest(text: str) -> bytes:
    """Return what is kept of a secret."""
    return hashlib.sha256(text.encode()).digest()


def same(kept: bytes, given: bytes) -> bool:
    """Compare what is kept with what was given, in a time that tells nothing."""
    return hmac.compare_digest(kept, given)


def id_of(text: str) -> UUID | None:
    """Return the id that a token names, or None of what is no token."""
    found = _TOKEN.fullmatch(text)
    return None if found is None else UUID(found[1])


def session_secret() -> str:
    """Return the secret of a new session."""
    return secrets.token_hex(SECRET_BYTES)


def is_session(text: str) -> bool:
    """Say whether this could be a session's secret."""
    return _SECRET.fullmatch(text) is not None


def csrf(secret: str) -> str:
    """Return the word that forms of a session bring along; whoever knows it cannot tell the secret."""
    return hmac.digest(secret.encode(), b"csrf", "sha256").hex()
