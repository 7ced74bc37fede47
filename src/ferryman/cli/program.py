"""The commands, by name; each is imported when it is called."""

from __future__ import annotations

from cyclopts import App

from ferryman.cli import exits
from ferryman.cli.version import told

program = App(
    name="ferryman",
    help="Durable orchestration on PostgreSQL. Everything that boards gets across.",
    help_format="plaintext",
    help_epilogue=exits.TOLD,
    version=told,
)

for _name, _help in (
    ("demo", "Watch a story: retries, timeouts, a killed worker, ten thousand at once. Under a minute."),
    ("dev", "Everything in one process, on an embedded PostgreSQL of this directory."),
    ("worker", "Run an app's tasks until told to stop."),
    ("migrate", "Bring the tables up to this version."),
    ("task", "Create tasks, ask about them, stop them."),
    ("events", "Show what happens, as it happens."),
    ("doctor", "Look at everything that is worth knowing at 3 a.m."),
    ("config", "Show every setting, its value and where it came from."),
    ("version", "Show the version."),
):
    program.command(f"ferryman.cli.{_name}:program", name=_name, help=_help)
