"""`ferryman token`: who may ask over HTTP."""

from __future__ import annotations

from cyclopts import App

from ferryman.cli.token import look, move

program = App(
    name="token", help="Make tokens for HTTP and the dashboard, show and revoke them.", help_format="plaintext"
)

program.command(move.create, name="create", sort_key=0)
program.command(look.list_page, name="list", sort_key=1)
program.command(move.revoke, name="revoke", sort_key=2)
