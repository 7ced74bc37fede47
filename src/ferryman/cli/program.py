"""The commands, by name; each is imported when it is called."""

from __future__ import annotations

from collections.abc import Sequence

from cyclopts import App

from ferryman.cli import exits
from ferryman.cli.version import told

COMMANDS = {
    "demo": "Watch a story: schedules, limits, workflows, commands, killed workers. Under a minute.",
    "dev": "Everything in one process, on an embedded PostgreSQL of this directory.",
    "worker": "Run an app's tasks until told to stop.",
    "server": "Serve HTTP and the dashboard until told to stop.",
    "migrate": "Bring the tables up to this version.",
    "task": "Create tasks, ask about them, stop them.",
    "command": "Send commands, ask about them, cancel them.",
    "schedule": "Create schedules, ask about them, pause and trigger them.",
    "queue": "Ask about queues, agree on their limits, pause and resume them.",
    "agent": "Ask about agents and their turns, send them messages, stop them.",
    "batch": "Fork batches of agents' turns, watch them fill in, end them.",
    "ingest": "Plan ingestion, see how far it is, prove what it did.",
    "relay": "Tell the log to the outside: webhooks, and how far relays are.",
    "token": "Make tokens for HTTP and the dashboard, show and revoke them.",
    "explain": "Say why something is not running, and what ends it.",
    "events": "Show what happens, as it happens.",
    "doctor": "Look at everything that is worth knowing at 3 a.m.",
    "config": "Show every setting, its value and where it came from.",
    "version": "Show the version.",
}

# Options of every command that people also write before it.
COMMON = ("--database-url", "--tenant", "--schema")


def make(arguments: Sequence[str]) -> App:
    """Make the program for these arguments."""
    program = App(
        name="ferryman",
        help="Durable orchestration on PostgreSQL. Everything that boards gets across.",
        help_format="plaintext",
        help_epilogue=exits.TOLD,
        version=told,
    )
    program.register_install_completion_command(help="Teach your shell to complete ferryman's commands.")
    for order, (name, help) in enumerate(COMMANDS.items()):
        # A help given here would stand above what the command says of itself; for all others it saves their import.
        shown = None if name in arguments else help
        program.command(f"ferryman.cli.{name}:program", name=name, help=shown, sort_key=order)
    return program


def ordered(arguments: Sequence[str]) -> list[str]:
    """Put common options that stand before the command behind it, where they are understood.

    A lone hyphen is stdin and no option; the parser takes it for one, so it is spelled @- for it.
    """
    rest = ["@-" if each == "-" else each for each in arguments]
    moved: list[str] = []
    while rest and (rest[0] == "--json" or rest[0].partition("=")[0] in COMMON):
        taken = 2 if rest[0] in COMMON else 1
        moved += rest[:taken]
        rest = rest[taken:]
    return rest + moved
