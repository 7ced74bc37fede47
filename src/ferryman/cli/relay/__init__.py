"""`ferryman relay`: what of the log goes out, and how far it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cyclopts import App

from ferryman.cli.relay import look, move, webhook

program = App(
    name="relay", help="Tell the log to the outside: webhooks, and how far relays are.", help_format="plaintext"
)
_webhooks = App(
    name="webhook", help="Add receivers of events, ask about them, stop them.", help_format="plaintext", sort_key=1
)
program.command(_webhooks)

_COMMANDS: dict[str, Callable[..., Any]] = {
    "add": webhook.add,
    "list": webhook.list_page,
    "secret": webhook.secret,
    "rotate": webhook.rotate,
    "pause": move.pause,
    "resume": move.resume,
    "remove": move.remove,
    "deliveries": look.deliveries,
    "retry": move.retry,
}

program.command(look.status, name="status", sort_key=0)
program.command(look.forget, name="forget", sort_key=2)
for _order, (_name, _function) in enumerate(_COMMANDS.items()):
    _webhooks.command(_function, name=_name, sort_key=_order)
