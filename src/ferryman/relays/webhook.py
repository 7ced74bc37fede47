"""The signature of a webhook: how it is made here, and how a receiver checks it (S6).

The form is that of Standard Webhooks, for which libraries exist in most languages. Three headers come with each call:
`webhook-id` names the event and is the same at every try; `webhook-timestamp` is the time of this try in seconds;
`webhook-signature` holds one or more signatures, with a space between them, each `v1,` and the base64 of an HMAC-SHA256 over
`{id}.{timestamp}.{body}`. Two stand there for a day after a secret was changed.

A secret is not stored. It is made of a key that only our processes have, the webhook's id and the version of its secret, so
that whoever reads the database or a backup of it can sign nothing.

    from ferryman.relays import webhook

    webhook.verify(body, headers, secret="whsec_…")
"""

from __future__ import annotations

import hashlib
import hmac
import time
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Final
from uuid import UUID

from ferryman.kernel import errors

ID: Final = "webhook-id"
TIMESTAMP: Final = "webhook-timestamp"
SIGNATURE: Final = "webhook-signature"
SECRET: Final = "whsec_"
WINDOW: Final = timedelta(minutes=5)


def verify(
    body: bytes | str,
    headers: Mapping[str, str],
    *,
    secret: str | Iterable[str],
    window: timedelta = WINDOW,
    now: float | None = None,
) -> str:
    """Return the id of the event if the call is ours and fresh; raise SignatureInvalid otherwise.

    `body` is what came over the wire, to the byte. Events may come twice: the id tells which were seen before.
    """
    given = {name.lower(): value for name, value in headers.items()}
    id, stamp, signatures = (given.get(name) for name in (ID, TIMESTAMP, SIGNATURE))
    if not id or not stamp or not signatures:
        raise errors.SignatureInvalid(f"The call lacks {ID}, {TIMESTAMP} or {SIGNATURE}.")
    if not (stamp.isascii() and stamp.isdigit() and len(stamp) <= 12):
        raise errors.SignatureInvalid(f"{TIMESTAMP} is not a number of seconds.")
    if abs((time.time() if now is None else now) - int(stamp)) > window.total_seconds():
        raise errors.SignatureInvalid(
            "The call is too old, or the clocks differ; it may be a repeat of an earlier one."
        )
    secrets = [secret] if isinstance(secret, str) else list(secret)
    raw = body.encode() if isinstance(body, str) else body
    own = [sign(each, id=id, timestamp=int(stamp), body=raw).encode() for each in secrets]
    # Each with each, without a way out: how long it takes must not tell how much of it was right.
    fits = [hmac.compare_digest(mine, theirs.encode()) for mine in own for theirs in signatures.split()[:10]]
    if not any(fits):
        raise errors.SignatureInvalid()
    return id


def sign(secret: str, *, id: str, timestamp: int, body: bytes) -> str:
    """Return one signature."""
    text = f"{id}.{timestamp}.".encode() + body
    return f"v1,{b64encode(hmac.digest(_bytes(secret), text, hashlib.sha256)).decode()}"


def headers(secrets: Iterable[str], *, id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """Return the headers that sign one call."""
    signatures = " ".join(sign(each, id=id, timestamp=timestamp, body=body) for each in secrets)
    return {ID: id, TIMESTAMP: str(timestamp), SIGNATURE: signatures}


def secret_of(key: str, webhook: UUID, version: int) -> str:
    """Return the secret of a webhook."""
    made = hmac.digest(key.encode(), f"ferryman webhook {webhook} {version}".encode(), hashlib.sha256)
    return f"{SECRET}{b64encode(made).decode()}"


def key_id(key: str) -> str:
    """Return what tells a key from others and says nothing else about it."""
    return hmac.digest(key.encode(), b"ferryman key", hashlib.sha256).hex()[:16]


def _bytes(secret: str) -> bytes:
    try:
        return b64decode(secret.removeprefix(SECRET), validate=True)
    except ValueError:
        raise errors.SignatureInvalid(f"The secret is not one of ours: they begin with {SECRET}.") from None
