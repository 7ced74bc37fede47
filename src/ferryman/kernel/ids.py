"""Ids and names (K11, K12).

An id is a UUID of version 7, made by whoever creates the row: it needs no round trip and grows with
time, so that new rows lie together in an index. Names (tenant, queue, handler, task_id) are short
and plain, so that they can be subjects, labels and paths without quoting. Keys may be any text.
"""

import re
import sys
from typing import NewType
from uuid import UUID

from ferryman.kernel import errors

if sys.version_info >= (3, 14):
    from uuid import uuid7
else:
    from uuid_utils.compat import uuid7

Tenant = NewType("Tenant", str)
Name = NewType("Name", str)
Key = NewType("Key", str)
BootId = NewType("BootId", UUID)

LONGEST = 200
# ASCII only: a name that looks the same must be the same.
_NAME = re.compile(r"[A-Za-z0-9_.:-]{1,200}")
# Any text but control characters, line separators and halves of a surrogate pair.
_KEY = re.compile("[^\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]{1,200}")
_SHOWN = 40


def new_id() -> UUID:
    """Return a new id; later ones sort after earlier ones made by the same process."""
    return uuid7()


def boot_id() -> BootId:
    """Return the name one worker holds leases under, from its start to its stop.

    Call it once per start. A host name or a process id comes back after a restart and would let a
    worker take a dead one's leases for its own.
    """
    return BootId(uuid7())


def is_name(value: object) -> bool:
    """Say whether this is a name."""
    return isinstance(value, str) and _NAME.fullmatch(value) is not None


def check_name(value: object, field: str) -> Name:
    """Return the value if it is a name."""
    if isinstance(value, str) and _NAME.fullmatch(value):
        return Name(value)
    raise _refusal(value, field, f"1 to {LONGEST} characters of letters, digits, _ . : -")


def check_key(value: object, field: str) -> Key:
    """Return the value if it can be an idempotency key or scope."""
    if isinstance(value, str) and _KEY.fullmatch(value) and not value.isspace():
        return Key(value)
    raise _refusal(value, field, f"1 to {LONGEST} printable characters")


def _refusal(value: object, field: str, expected: str) -> errors.TaskInvalidRequest:
    if not isinstance(value, str):
        got = type(value).__name__
    elif len(value) > LONGEST:
        got = f"{len(value)} characters"
    else:
        shown = value if len(value) <= _SHOWN else value[:_SHOWN] + "…"
        got = ascii(shown) if not shown.isprintable() else repr(shown)
    return errors.TaskInvalidRequest(f"{field}: expected {expected}, got {got}.", field=field)
