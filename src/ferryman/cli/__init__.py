"""The command line: parse, call one door, show.

Answers go to stdout, words for people to stderr. With --json stdout holds one JSON document, or JSON lines where a command
goes on; an error is then a JSON object on stderr. Exit codes are in exits.py. Modules of commands are imported when they
are called, so that `ferryman --help` is quick.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec

EXTRA = "The command line needs a few packages more: pip install 'ferryman[cli]'"


def main(arguments: list[str] | None = None) -> int:
    """Run a command and return its exit code; the entry point of `ferryman`."""
    if find_spec("cyclopts") is None or find_spec("rich") is None:
        print(EXTRA, file=sys.stderr)
        return 2
    from ferryman.cli import boundary

    return boundary.run(sys.argv[1:] if arguments is None else arguments)
