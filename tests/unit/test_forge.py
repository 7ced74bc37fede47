"""What tests fork ends with them."""

import os
import select
import signal
import sys
from pathlib import Path
from typing import Any

from tests.forge import Forged

HERE = __name__
NOWHERE = Path("/")


def become(words: Any) -> int:
    """Hold what was given to it, for as long as it lives."""
    signal.pause()
    return int(words)


def begin(output: int) -> Forged:
    with Path(os.devnull).open() as nothing:
        return Forged(HERE, 0, env={}, cwd=NOWHERE, stdio=(nothing.fileno(), output, output))


def test_a_forked_process_is_killed_when_whoever_asked_for_it_is_gone() -> None:
    output, inside = os.pipe()
    owner = os.fork()
    if owner == 0:
        begin(inside)
        os.write(inside, b"!")
        signal.pause()
        sys.exit()
    os.close(inside)
    try:
        assert os.read(output, 1) == b"!"
        os.kill(owner, signal.SIGKILL)
        assert select.select([output], [], [], 30.0)[0], "it lives on"
        assert os.read(output, 1) == b""
    finally:
        os.waitpid(owner, 0)
        os.close(output)
