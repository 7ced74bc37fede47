"""Where ferries are launched: commands of the program, forked with their imports made (see tests/forge.py)."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.forge import Forged


def begin(arguments: list[str], *, stdio: tuple[int, int, int], env: Mapping[str, str], cwd: Path) -> Forged:
    """Start a command with these pipes."""
    return Forged(__name__, arguments, env=env, cwd=cwd, stdio=stdio)


def launch(
    arguments: list[str], *, stdio: tuple[int, int, int], env: Mapping[str, str], cwd: Path, patience: float
) -> int:
    """Run a command with these pipes to its end; return its exit code."""
    begun = begin(arguments, stdio=stdio, env=env, cwd=cwd)
    try:
        return begun.wait(patience)
    except TimeoutError as error:
        begun.send_signal(signal.SIGKILL)
        begun.wait()  # and so hangs up: a line that is left open is told of in the middle of some other test
        raise subprocess.TimeoutExpired(arguments, patience) from error


def become(arguments: list[str]) -> int:
    """Be the command."""
    from ferryman.cli import main

    sys.argv = ["ferryman", *arguments]
    return main()
