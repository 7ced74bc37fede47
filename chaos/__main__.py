"""Run chaos: `python -m chaos --seed 7 --minutes 3`.

Exit code 1 if anything was lost, ended twice, hangs, or did not occur; and, in a run of 150 s or more, if a figure is short of
its aim. In a shorter one too little happens for that.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from chaos import aims, anew, checker, crew, plan, report, soak, storm, terms
from chaos.bell import Bell
from chaos.checker import cases, figures, survivors
from chaos.checker.evidence import Connection, Evidence, overheard
from chaos.fleet import Fleet
from chaos.history import History, gather
from chaos.lookout import MEASURE_SECONDS, Lookout
from chaos.pooler import Pooler
from chaos.sea import Sea

SHORT_SECONDS = 150.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, check, tell."""
    asked = _read(arguments)
    if asked.plan:
        for fault in plan.draw(asked.seed, asked.minutes * 60, rates=_rates(asked), lease=asked.lease):
            print(json.dumps(fault.told()))
        return 0
    if os.getloadavg()[0] > (os.cpu_count() or 1):
        _say(
            f"the machine is busy (load {os.getloadavg()[0]:.0f}): a life may end before it has begun to work, rows may be late"
            " for want of the processor, and figures of recovery mean nothing; --lease 6 helps a little"
        )
    place = Path(tempfile.mkdtemp(prefix="ferryman-chaos-"))
    place.chmod(0o711)  # the server of root runs as somebody else, who must get to its files
    found, wrong = _run(asked, place)
    short = aims.short(found) if asked.soak or asked.minutes * 60 >= SHORT_SECONDS else []
    report.show(found, [*wrong, *short], file=sys.stdout)
    if asked.json:
        Path(asked.json).write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    if asked.page and not wrong:
        report.write(Path(asked.page), found)
    if wrong or short:
        print(f"The histories are kept in {place}; the same plan: --seed {asked.seed} --minutes {asked.minutes:g}")
    else:
        shutil.rmtree(place)
    return 1 if wrong or short else 0


def _read(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="chaos", description="Everything at once, while the world breaks by a plan.")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument(
        "--lease", type=float, default=plan.LEASE_SECONDS, help="seconds; longer where the machine is busy"
    )
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--dogs", type=int, default=2, help="processes that only watch and fire")
    parser.add_argument("--producers", type=int, default=3)
    parser.add_argument("--pace", type=float, default=0.06, help="seconds between two acts of a producer")
    parser.add_argument(
        "--load", type=float, default=3.0, help="how many of the acts are sets of plain tasks: 1 is four in ten"
    )
    parser.add_argument(
        "--pooler", action="store_true", help="through PgBouncer in transaction mode, which must be installed"
    )
    parser.add_argument("--soak", action="store_true", help="mild faults, producers at half the pace; nothing may grow")
    parser.add_argument(
        "--retention",
        type=float,
        help="seconds for which a soak keeps what has ended: the bytes of tables are judged then",
    )
    parser.add_argument(
        "--short-lives",
        action="store_true",
        help="four times a minute no worker and no watchdog lives long, for some seconds",
    )
    parser.add_argument("--plan", action="store_true", help="print the plan of faults and run nothing")
    parser.add_argument("--json", help="write the figures to this file")
    parser.add_argument("--page", help="write the figures into this page")
    asked = parser.parse_args(arguments)
    if asked.retention is not None and (not asked.soak or asked.retention < soak.VISIT_SECONDS):
        parser.error(f"--retention: expected {soak.VISIT_SECONDS:g} s or more, and --soak")
    return asked


def _rates(asked: argparse.Namespace) -> dict[str, float]:
    """Return how often each fault is to come."""
    rates = plan.MILD if asked.soak else plan.RATES
    return rates | plan.SHORT_LIVES if asked.short_lives else rates


def _environment(asked: argparse.Namespace, url: str, nats_url: str) -> dict[str, str]:
    """Return what processes are told beside the terms that all runs have."""
    lives = terms.SHORT_LIVES if asked.short_lives else {}
    return {"FERRYMAN_LISTEN_URL": url, "FERRYMAN_NATS_URL": nats_url, **terms.kept(asked.retention), **lives}


def _say(words: str) -> None:
    """Tell how far it is, beside the answer."""
    print(words, file=sys.stderr, flush=True)


def _run(asked: argparse.Namespace, place: Path) -> tuple[aims.Found, list[str]]:
    from ferryman.kernel import migrate

    crew.load()
    seconds = asked.minutes * 60
    folder = storm.folder_of(place)
    sea, pooler, bell = Sea(place / "sea"), Pooler(place / "pooler"), Bell(place / "nats")
    try:
        sea.begin()
        bell.start()
        storm.migrated(sea.url, migrate.migrate)
        storm.prepare(sea)
        told = History(folder / "storm.history")
        # What the log of the database says can be put beside the histories by this.
        told.write("clock", wall=time.time(), lease=asked.lease)
        pace = asked.pace * 2 if asked.soak else asked.pace
        slots = storm.crew(
            workers=asked.workers,
            dogs=asked.dogs,
            producers=asked.producers,
            pace=pace,
            load=asked.load,
            lease=asked.lease,
        )
        url = pooler.start(sea.url) if asked.pooler else sea.url
        fleet = Fleet(
            slots,
            told,
            url=url,
            more=_environment(asked, sea.url, bell.url),
            seed=asked.seed,
            folder=folder,
            lease=asked.lease,
        )
        fleet.calm = asked.soak
        fleet.spared = frozenset({soak.SPARED}) if asked.soak else frozenset()
        lookout = Lookout(sea, fleet, told, lease=asked.lease, folder=folder)
        run = storm.Storm(sea, bell, fleet, told, lookout, seed=asked.seed, say=_say)
        gauge = soak.Gauge(sea, fleet, seconds, retention=asked.retention) if asked.soak else None
        began = time.monotonic()
        try:
            faults = plan.draw(asked.seed, seconds, rates=_rates(asked), lease=asked.lease)
            run.outcome.wrong += fleet.errand("founder")
            run.await_all(storm.BIRTH_SECONDS)
            run.rage(faults, seconds, gauge)
            run.linger(
                2 * (survivors.BUSY_LEASES * asked.lease + survivors.LOOKS * MEASURE_SECONDS),
                alone=None if asked.soak or seconds < SHORT_SECONDS else asked.lease,
            )
            run.settle()
        finally:
            fleet.end()
        _say("all is quiet: histories and tables are compared")
        with sea.connect() as connection:
            seen = Evidence(gather(folder), connection, overheard(folder))
            wrong, counted = checker.check(seen, rows_leave=asked.retention is not None)
            measured = figures.measure(seen, folder, lease=asked.lease)
            mild = {} if gauge is None else _mild(gauge, seen, connection, rows_leave=asked.retention is not None)
        late, lasted = lookout.seen, time.monotonic() - began
        found = report.found(asked, run.outcome, late, measured, counted=counted, seconds=lasted) | mild
        wrong = [*run.outcome.wrong, *wrong]
        if late.overdue:
            wrong.append(f"{late.overdue} rows were overdue during the run: {dict(late.late)}")
        if gauge is not None:
            return found, [*wrong, *gauge.unseen()]
        return found, [*wrong, *cases.missing(measured.cases, minutes=asked.minutes, short=seconds < SHORT_SECONDS)]
    finally:
        bell.stop()
        pooler.stop()
        sea.end()


def _mild(gauge: soak.Gauge, seen: Evidence, connection: Connection, *, rows_leave: bool) -> aims.Found:
    """Put together what only a soak tells."""
    lived = survivors.fleet(seen)
    return {
        "soak": gauge.told(),
        "levels": gauge.levels(),
        # Where rows leave, what is left of a table says nothing of the room that it needs.
        "wide": {} if rows_leave else anew.told(anew.widths(connection)),
        "spared": {**lived.pause(soak.SPARED)._asdict(), "beside": lived.beside(soak.SPARED)},
    }


if __name__ == "__main__":
    sys.exit(main())
