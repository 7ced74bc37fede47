"""One virtual environment per peer, made from the interpreter that runs the benchmark and kept for the next run."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / ".cache" / "bench"

PACKAGES: dict[str, Sequence[str]] = {
    "floor": ("asyncpg", "uvloop"),
    "pgqueuer": ("pgqueuer[asyncpg]", "uvloop"),
    "awa": ("awa-pg",),
    "chancy": ("chancy[cli]", "psycopg[binary]"),
    "absurd": ("absurd-sdk", "absurdctl", "psycopg[binary]"),
    "procrastinate": ("procrastinate", "psycopg[binary,pool]"),
    "dbos": ("dbos",),
    "celery": ("celery[redis]",),
    "taskiq": ("taskiq", "taskiq-redis", "uvloop"),
}
VERSIONS = """
import json, importlib.metadata as m
print(json.dumps({d.metadata["Name"]: d.version for d in m.distributions()}))
"""


def interpreter(peer: str) -> Path:
    """The peer's Python, installed first if it is missing. Ferryman is measured in the project's own."""
    if peer not in PACKAGES:
        return Path(sys.executable)
    place = CACHE / "venvs" / peer
    wanted = json.dumps([sys.version, *PACKAGES[peer]])
    made = place / "made-of.json"
    if not made.exists() or made.read_text() != wanted:
        print(f"installing {' '.join(PACKAGES[peer])}", flush=True)
        shutil.rmtree(place, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", place], check=True)
        subprocess.run([place / "bin" / "python", "-m", "pip", "install", "-qq", *PACKAGES[peer]], check=True)
        made.write_text(wanted)
    return place / "bin" / "python"


def versions(peer: str) -> dict[str, str]:
    """What is installed for a peer, by the names it was asked for."""
    asked = {package.split("[")[0] for package in PACKAGES.get(peer, ("asyncpg", "uvloop"))}
    out = subprocess.run([interpreter(peer), "-c", VERSIONS], check=True, capture_output=True, text=True).stdout
    return {name: version for name, version in json.loads(out).items() if name.lower() in asked}
