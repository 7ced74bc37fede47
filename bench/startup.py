"""How long it takes until something happens: the import, a worker on a running database, a database from nothing."""

from __future__ import annotations

import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from bench import venvs
from bench.stage import Failed, Stage

TRIES = 3
READY_WITHIN = 30.0

IMPORT = """
import time
begun = time.perf_counter()
from ferryman import Ferryman
print(time.perf_counter() - begun)
"""
EMBEDDED = """
import pathlib, sys, time
from ferryman.app.embedded import Embedded
begun = time.perf_counter()
embedded = Embedded(pathlib.Path(sys.argv[1]))
embedded.start()
print(time.perf_counter() - begun)
embedded.stop()
"""


def startup(stage: Stage) -> dict[str, float]:
    """From starting a worker's process to the first line of a job that waits for it; ours in medians of a few tries."""
    ours = stage.peer == "ferryman"
    figures = {"worker": statistics.median(await_first_job(stage) for _ in range(TRIES if ours else 1))}
    if ours:
        figures["import"] = statistics.median(tell(stage, IMPORT) for _ in range(TRIES))
        with tempfile.TemporaryDirectory(prefix="fm-") as place:
            figures["embedded"] = tell(stage, EMBEDDED, str(Path(place) / "data"))
    return figures


def await_first_job(stage: Stage) -> float:
    stage.fresh()
    stage.client("fill", 1)
    stage.marks.go()
    begun = time.monotonic()
    with stage.crew(1, wait=False) as crew:
        while not stage.marks.begun(0, 1):
            if crew.ended() or time.monotonic() > begun + READY_WITHIN:
                raise Failed(f"{stage.peer}: the waiting job never began")
            time.sleep(0.001)
        return stage.marks.started(1)[0] - begun


def tell(stage: Stage, program: str, *words: str) -> float:
    """Run a small program in the peer's environment and read the seconds it prints."""
    done = subprocess.run(
        [stage.python, "-c", program, *words],
        env=stage.environment(stage.database, 0),
        cwd=venvs.ROOT,
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    if done.returncode:
        raise Failed(done.stderr[-2000:])
    return float(done.stdout.split()[-1])
