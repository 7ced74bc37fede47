"""Where ships are built: forked with their imports made (see tests/forge.py)."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ferryman.kernel import faults
from tests.forge import Forged


def launch(plan: Mapping[str, Any], *, env: Mapping[str, str], cwd: Path, output: int) -> Forged:
    """Launch a ship; what it says goes to one place."""
    with open(os.devnull, "rb") as nothing:
        return Forged(__name__, dict(plan), env=env, cwd=cwd, stdio=(nothing.fileno(), output, output))


def become(plan: dict[str, Any]) -> int:
    """Be the ship; it ends without a farewell, like its lives."""
    from tests.crash import ship

    code = 1
    try:
        if faulty := os.environ.get(faults.PLAN):
            faults.arm(faulty, log=os.environ.get(faults.LOG))
        ship.main(plan)
        code = 0
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else 1
    except BaseException:  # noqa: BLE001 - told as Python tells it
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
