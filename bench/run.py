"""Measure Ferryman beside its peers: `python -m bench.run --help`."""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from bench import deep, domains, growth, measure, page, report, venvs
from bench.record import Item, Line, Record
from bench.redis import Redis
from bench.server import Server, strangers_seconds
from bench.stage import Stage, read_card

OURS = "ferryman"
PEERS = (OURS, *venvs.PACKAGES)
RESULTS = venvs.ROOT / "bench" / "results"
QUICK = 0.3

USUAL = ("startup", "enqueue", "drain1", "drain2", "latency", "join", "steps", "schedule")
DEEP = {"deep": deep.deep, "deep10": deep.deep10, "horizon": deep.horizon}
ALL = (*USUAL, *domains.DOMAINS, "gates", *DEEP, "growth")
# Those that take minutes each; their verdicts say so.
ONCE = frozenset({"deep10", "horizon", "growth"})
GROWTH = "growth_"
MINUTES, ALL_MINUTES = 40.0, 180.0


def words(text: str) -> list[str]:
    return [word for word in text.split(",") if word]


def parse(given: Sequence[str] | None) -> argparse.Namespace:
    line = argparse.ArgumentParser(prog="bench", description="Measure Ferryman beside its peers.")
    line.add_argument("--rounds", type=int, default=3)
    line.add_argument("--work", type=words, default=list(USUAL), help=",".join(ALL))
    line.add_argument("--all", action="store_true", help="every workload of every domain, and everything that grows")
    line.add_argument("--peers", type=words, default=list(PEERS), help=",".join(PEERS))
    line.add_argument("--quick", action="store_true", help="one round with fewer jobs, for a first look")
    line.add_argument(
        "--minutes", type=float, help=f"begin nothing after this ({MINUTES:g}, with --all {ALL_MINUTES:g})"
    )
    line.add_argument("--store", type=Path, help="the file of results; one that is there is gone on with")
    line.add_argument("--report", action="store_true", help="measure nothing, show what the file holds")
    line.add_argument("--write-docs", action="store_true", help="make docs/performance.md of the file")
    line.add_argument("--mix", action="store_true", help="go on with a file that holds results of another commit")
    asked = line.parse_args(given)
    if asked.all:
        asked.work = list(ALL)
    for name, known in (("work", ALL), ("peers", PEERS)):
        if unknown := set(getattr(asked, name)) - set(known):
            line.error(f"--{name} knows {', '.join(known)}, not {', '.join(sorted(unknown))}")
    if asked.quick and asked.write_docs:
        line.error("--quick measures once, with fewer jobs and rows than the page speaks of: leave --write-docs away")
    if asked.report and asked.store is None:
        line.error("--report wants the file: --store bench/results/….jsonl")
    if not {*USUAL, "deep"} & set(asked.work):
        asked.peers = [OURS]  # nobody else is in it
    if asked.quick:
        asked.rounds = 1
    asked.minutes = asked.minutes or (ALL_MINUTES if asked.all else MINUTES)
    asked.store = asked.store or RESULTS / time.strftime("%Y%m%d-%H%M%S.jsonl")
    return asked


def plan(asked: argparse.Namespace, stages: Mapping[str, Stage]) -> Iterator[Item]:
    """Every peer once per workload and round, in the other direction every other round."""
    for number in range(asked.rounds):
        for work in asked.work:
            if number and work in ONCE:
                continue
            items = list(items_of(work, number, stages, quick=asked.quick))
            yield from items if number % 2 == 0 else reversed(items)


def items_of(work: str, number: int, stages: Mapping[str, Stage], *, quick: bool) -> Iterator[Item]:
    if work == "growth" and OURS in stages:
        for variable in growth.SIZES:
            for size in growth.sizes(variable, quick=quick):
                yield Item(number, GROWTH + variable, OURS, size)
    elif work in domains.DOMAINS and OURS in stages:
        yield from (Item(number, work, peer) for peer in domains.DOMAINS[work])
    else:
        needs = measure.NEEDS.get(work, "ours" if work in ONCE else work)
        yield from (Item(number, work, peer) for peer, stage in stages.items() if needs in stage.card.can)


def works(stage: Stage) -> list[str]:
    """What a peer beside ours can be measured in."""
    return [work for work in (*USUAL, "deep") if measure.NEEDS.get(work, work) in stage.card.can]


def figures(item: Item, stages: Mapping[str, Stage]) -> measure.Figures:
    if item.size is not None:
        return growth.point(stages[OURS], item.work.removeprefix(GROWTH), item.size)
    if item.work in domains.DOMAINS:
        return domains.DOMAINS[item.work][item.peer](stages[OURS])
    stage = stages[item.peer]
    told = (DEEP.get(item.work) or measure.WORKLOADS[item.work])(stage)
    # A store that writes no WAL has told nothing about it.
    silent = () if stage.card.store == "postgres" else ("wal", "flushes", "disk", "idle_transactions")
    return {name: value for name, value in told.items() if not name.startswith(silent)} if silent else told


def measure_one(item: Item, stages: Mapping[str, Stage], server: Server) -> Line:
    """One result line. What goes wrong with one peer is noted and does not end the run."""
    begun, strangers = time.monotonic(), strangers_seconds(server)
    line: Line = {name: value for name, value in item._asdict().items() if value is not None}
    line["load"] = os.getloadavg()[0]
    stage = stages.get(item.peer, stages.get(OURS))
    assert stage is not None
    try:
        line["figures"] = figures(item, stages)
    except Exception as error:  # noqa: BLE001 - written into the result
        line["error"] = f"{type(error).__name__}: {error}"
    finally:
        stage.store.drop(stage.database)
    took = time.monotonic() - begun
    others = max(0.0, strangers_seconds(server) - strangers) / took
    return line | {"durable": stage.card.durable, "seconds": round(took, 1), "others": round(others, 2)}


def run(asked: argparse.Namespace, record: Record, stages: Mapping[str, Stage], server: Server) -> None:
    begun = time.monotonic()
    items = [item for item in plan(asked, stages) if not record.has(item)]
    for number, item in enumerate(items, 1):
        spent = time.monotonic() - begun
        if spent > 60 * asked.minutes:
            left = len(items) - number + 1
            print(f"stopping after {spent / 60:.0f} minutes, {left} not measured; go on with --store {asked.store}")
            return
        record.add(measure_one(item, stages, server))
        print(f"{number}/{len(items)} {report.progress(record.lines[-1])}", flush=True)


@contextlib.contextmanager
def opened(
    asked: argparse.Namespace, server: Server, scratch: Path
) -> Iterator[tuple[dict[str, Stage], dict[str, str]]]:
    """The peers that can run, and why the others cannot."""
    stages: dict[str, Stage] = {}
    absent: dict[str, str] = {}
    redis: Redis | None = None
    try:
        for peer in asked.peers:
            try:
                card = read_card(peer)
                if card.store == "redis" and redis is None:
                    redis = Redis(scratch / "redis")
                store = server if card.store == "postgres" or redis is None else redis
                scale = QUICK if asked.quick else 1.0
                stages[peer] = Stage(peer, server, scratch, scale=scale, card=card, store=store)
            except Exception as error:  # noqa: BLE001 - a peer that cannot run is named, and the others go on
                absent[peer] = f"{type(error).__name__}: {str(error).strip()[-400:]}"
                print(f"without {peer}: {absent[peer]}", flush=True)
        yield stages, absent
    finally:
        if redis is not None:
            redis.stop()


def commit() -> str:
    """Which code is measured: the last commit that changed it, and a mark of what has been changed in it since."""

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=venvs.ROOT, check=True, capture_output=True, text=True).stdout

    try:
        named = git("log", "-1", "--format=%h", "--abbrev=10", "--", "src", "bench").strip()
        changes = git("diff", "HEAD", "--", "src", "bench")
    except (OSError, subprocess.CalledProcessError):
        return "no commit"
    return f"{named} with changes {hashlib.sha256(changes.encode()).hexdigest()[:8]}" if changes else named


def conditions(
    asked: argparse.Namespace, server: Server, stages: Mapping[str, Stage], absent: Mapping[str, str]
) -> Line:
    """What a reader must know to compare two runs, and what this one is to hold."""
    return {
        "commit": commit(),
        "planned": list(plan(asked, stages)),
        "at": time.strftime("%Y-%m-%d", time.gmtime()),
        "python": platform.python_version(),
        "postgres": server.show("server_version"),
        "fsync": server.show("fsync"),
        "synchronous_commit": server.show("synchronous_commit"),
        "cores": os.cpu_count(),
        "disk": server.disk(),
        "trip_us": round(server.trip(), 1),
        "commit_us": round(server.commit(), 1),
        "scale": next(iter(stages.values())).scale if stages else 1.0,
        "absent": dict(absent),
        "peers": {
            peer: {
                "settings": stage.card.settings,
                "versions": venvs.versions(peer),
                "durable": stage.card.durable,
                "works": works(stage),
            }
            for peer, stage in stages.items()
        },
    }


def main(given: Sequence[str] | None = None) -> int:
    asked = parse(given)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the server is stopped, too
    record = Record(asked.store)
    if asked.write_docs and any(head["scale"] < 1 for head in record.heads):
        print(
            f"{asked.store} holds results of --quick, with fewer jobs and rows than the page speaks of: no page is made."
        )
        return 2
    if not asked.report:
        if not asked.mix and (others := set(record.commits) - {commit()}):
            print(
                f"{asked.store} holds results of {', '.join(sorted(others))}, not of {commit()}: --mix puts both into it."
            )
            return 2
        place = venvs.CACHE / f"server-{os.getpid()}"
        with (
            tempfile.TemporaryDirectory(prefix="fm-bench-") as scratch,
            Server(place) as server,
            opened(asked, server, Path(scratch)) as (stages, absent),
        ):
            record.add(conditions(asked, server, stages, absent))
            run(asked, record, stages, server)
        if (now := commit()) != record.commits[-1]:
            print(f"The code has changed from {record.commits[-1]} to {now} while it was measured: begin anew.")
            return 1
    print(f"\n{report.tables(record)}\n\n{asked.store}")
    if asked.write_docs:
        page.write(venvs.ROOT / "docs", record)
    return 1 if record.missing or any("error" in line for line in record.lines) else 0


if __name__ == "__main__":
    sys.exit(main())
