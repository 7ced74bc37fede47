"""One virtual environment per peer, made from the interpreter that runs the benchmark and kept for the next run."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LAST_WORDS = 400
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
    return made(peer, PACKAGES[peer]) / "python"


def made(name: str, packages: Sequence[str]) -> Path:
    """The programs of an environment that holds these packages, installed first if it is missing."""
    place = CACHE / "venvs" / name
    wanted = json.dumps([sys.version, *packages])
    note = place / "made-of.json"
    if not note.exists() or note.read_text() != wanted:
        print(f"installing {' '.join(packages)}", flush=True)
        shutil.rmtree(place, ignore_errors=True)
        said([sys.executable, "-m", "venv", place])
        said([place / "bin" / "python", "-m", "pip", "install", "-qq", *packages])
        note.write_text(wanted)
    return place / "bin"


def said(command: Sequence[str | Path]) -> str:
    """Run a program and return what it prints; if it fails, its own last words are the reason."""
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip()[-LAST_WORDS:] or f"{command[0]} ended with {done.returncode}")
    return done.stdout


def durable(peer: str) -> bool:
    """Say of a peer that could not be asked whether it is durable: those on Redis are not."""
    return not any("redis" in package for package in PACKAGES.get(peer, ()))


def versions(peer: str) -> dict[str, str]:
    """What is installed for a peer, by the names it was asked for."""
    asked = {package.split("[")[0] for package in PACKAGES.get(peer, ("asyncpg", "uvloop"))}
    out = said([interpreter(peer), "-c", VERSIONS])
    return {name: version for name, version in json.loads(out).items() if name.lower() in asked}
