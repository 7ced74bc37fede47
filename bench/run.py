"""Measure Ferryman beside its peers: `python -m bench.run --help`."""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

from bench import measure, report, venvs
from bench.server import Server, strangers_seconds
from bench.stage import Stage

PEERS = ("ferryman", "floor", "pgqueuer", "procrastinate", "absurd")
KNOWN = ("ferryman", *venvs.PACKAGES)
RESULTS = venvs.ROOT / "bench" / "results"
QUICK = 0.3


def words(text: str) -> list[str]:
    return [word for word in text.split(",") if word]


def parse(given: Sequence[str] | None) -> argparse.Namespace:
    line = argparse.ArgumentParser(prog="bench", description="Measure Ferryman beside its peers.")
    line.add_argument("--rounds", type=int, default=3)
    line.add_argument("--work", type=words, default=list(measure.USUAL), help=",".join(measure.WORKLOADS))
    line.add_argument("--peers", type=words, default=list(PEERS), help=",".join(KNOWN))
    line.add_argument("--quick", action="store_true", help="one round with fewer jobs, for a first look")
    line.add_argument("--minutes", type=float, default=12.0, help="begin no round that would end later than this")
    line.add_argument("--write-docs", action="store_true", help="put the tables into docs/performance.md")
    asked = line.parse_args(given)
    for name, known in (("work", measure.WORKLOADS), ("peers", KNOWN)):
        if unknown := set(getattr(asked, name)) - set(known):
            line.error(f"--{name} knows {', '.join(known)}, not {', '.join(sorted(unknown))}")
    if asked.quick:
        asked.rounds = 1
    return asked


def conditions(server: Server, stages: Sequence[Stage]) -> dict[str, Any]:
    """What a reader must know to compare two runs."""
    return {
        "python": platform.python_version(),
        "postgres": server.show("server_version"),
        "fsync": server.show("fsync"),
        "synchronous_commit": server.show("synchronous_commit"),
        "cores": os.cpu_count(),
        "disk": server.disk(),
        "scale": stages[0].scale if stages else 1.0,
        "peers": {s.peer: {"settings": s.card.settings, "versions": venvs.versions(s.peer)} for s in stages},
    }


def measure_one(stage: Stage, work: str, number: int) -> dict[str, Any]:
    """One result line. What goes wrong with one peer is noted and does not end the run."""
    begun, strangers = time.monotonic(), strangers_seconds(stage.server)
    line: dict[str, Any] = {"round": number, "peer": stage.peer, "work": work, "load": os.getloadavg()[0]}
    try:
        line["figures"] = measure.WORKLOADS[work](stage)
    except Exception as error:  # noqa: BLE001 - written into the result
        line["error"] = f"{type(error).__name__}: {error}"
    finally:
        stage.server.drop(stage.database)
    took = time.monotonic() - begun
    others = max(0.0, strangers_seconds(stage.server) - strangers) / took
    return line | {"seconds": round(took, 1), "others": round(others, 2)}


def run_rounds(asked: argparse.Namespace, stages: Sequence[Stage], out: TextIO) -> list[dict[str, Any]]:
    """Every peer once per workload and round, in the other direction every other round."""
    lines: list[dict[str, Any]] = []
    begun = time.monotonic()
    for number in range(asked.rounds):
        spent = time.monotonic() - begun
        if number and spent * (number + 1) / number > 60 * asked.minutes:
            print(f"stopping after {number} rounds: another would pass {asked.minutes:g} minutes")
            break
        for work in asked.work:
            for stage in stages if number % 2 == 0 else reversed(stages):
                if measure.NEEDS.get(work, work) in stage.card.can:
                    lines.append(measure_one(stage, work, number))
                    out.write(json.dumps(lines[-1]) + "\n")
                    out.flush()
                    print(report.progress(lines[-1]), flush=True)
    return lines


def main(given: Sequence[str] | None = None) -> int:
    asked = parse(given)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the server is stopped, too
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / time.strftime("%Y%m%d-%H%M%S.jsonl")
    for peer in asked.peers:
        venvs.interpreter(peer)
    place = venvs.CACHE / f"server-{os.getpid()}"
    with tempfile.TemporaryDirectory(prefix="fm-bench-") as scratch, Server(place) as server, path.open("w") as out:
        stages = [Stage(peer, server, Path(scratch), scale=QUICK if asked.quick else 1.0) for peer in asked.peers]
        head = conditions(server, stages)
        out.write(json.dumps(head) + "\n")
        lines = run_rounds(asked, stages, out)
    text = report.tables(head, lines)
    print(f"\n{text}\n\n{path.relative_to(venvs.ROOT)}")
    if asked.write_docs:
        report.write_docs(venvs.ROOT / "docs" / "performance.md", text)
    return 1 if any("error" in line for line in lines) else 0


if __name__ == "__main__":
    sys.exit(main())
