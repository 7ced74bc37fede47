"""What the commits of our own connections wait for (K1).

What was told is done is on the disk of the server, whatever that, the database or the role was set to. They may also be set to
more: `remote_apply` waits until a standby shows what was committed. A word sent along with the connection would replace either,
and which it is only the server knows. So a new connection raises what is weaker than `on`, in one trip, and says again what is
not: what a session has said no reload weakens.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ferryman.kernel.pool.terms import CONNECT_TIMEOUT_SECONDS

SETTING = "synchronous_commit"
# Only `remote_apply` is more than `on`; `local`, `remote_write` and `off` are less.
_RAISE = f"""
select set_config('{SETTING}', case current_setting('{SETTING}') when 'remote_apply' then 'remote_apply' else 'on' end, false)
"""


async def commit_durably(connection: Any, settings: Mapping[str, str] | None) -> None:
    """Raise what commits wait for, unless the connection was made with a word about it, or a pooler took no settings."""
    if settings is None or SETTING in settings:
        return
    try:
        await connection.execute(_RAISE, timeout=CONNECT_TIMEOUT_SECONDS)
    except BaseException:
        connection.terminate()
        raise
