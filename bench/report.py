"""Results as tables: the figures of every peer, and ours against the bars."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from bench import bars, contract, venvs, verdicts
from bench.record import Item, Line, Record

BEGIN, END = "<!-- bench: begin -->", "<!-- bench: end -->"
IN_MEMORY = ("tmpfs", "ramfs")
EXCEPT = "but off, as in the product, for rings that are sent on their own and for the gate of ingestion"

FIGURES = (
    ("enqueue one by one, a worker listens, /s", "enqueue.single_heard"),
    ("enqueue one by one, nobody listens, /s", "enqueue.single"),
    ("enqueue, 50 in flight, a worker listens, /s", "enqueue.flight_heard"),
    ("enqueue, 50 in flight, nobody listens, /s", "enqueue.flight"),
    ("bulk, /s", "enqueue.bulk"),
    ("drain, jobs", "drain1.jobs"),
    ("drain, 1 worker, /s", "drain1.rate"),
    ("drain, 2 workers, /s", "drain2.rate"),
    ("start p50, ms", "latency.start_p50"),
    ("start p99, ms", "latency.start_p99"),
    ("durable end p50, ms", "latency.end_p50"),
    ("durable end p99, ms", "latency.end_p99"),
    ("between two looks for it, ms", "latency.look"),
    ("fan out 100 and join, ms", "join.p50"),
    ("10-step workflows, /s", "steps.rate"),
    ("WAL of a 10-step workflow, B", "steps.wal"),
    ("all due at once, jobs", "schedule.jobs"),
    ("last start, ms", "schedule.last"),
    ("last start, ms per 1,000", "schedule.last_per_1000"),
    ("drain with 1M finished, of empty", "deep.finished_share"),
    ("drain with 1M future, of empty", "deep.future_share"),
    ("drain with 1M waiting for a retry, of empty", "deep.retrying_share"),
    ("drain, no keys, /s", "gates.plain"),
    ("drain, 5 keys of 10 slots, /s", "gates.hot"),
    ("drain, 5 keys of one slot, /s", "gates.single"),
    ("drain, 1,000 keys of one slot, /s", "gates.many"),
    ("memory idle, MB", "latency.idle_memory"),
    ("memory peak, MB", "drain1.memory"),
    ("memory peak in 10-step workflows, MB", "steps.memory"),
    ("idle CPU, % of a core", "latency.idle_cpu"),
    ("idle CPU of the store, % of a core", "latency.idle_cpu_store"),
    ("idle transactions, /s", "latency.idle_transactions"),
    ("CPU worker, s per 10k", "drain1.cpu_worker"),
    ("CPU store, s per 10k", "drain1.cpu_store"),
    ("WAL created one by one, B", "enqueue.wal_single"),
    ("WAL created in bulk, B", "enqueue.wal_bulk"),
    ("WAL drained, B", "drain1.wal"),
    ("WAL flushes per job drained", "drain1.flushes"),
    ("on disk when created, B", "drain1.disk_filled"),
    ("on disk when drained, B", "drain1.disk_drained"),
    ("worker process to first job, s", "startup.worker"),
    ("from ferryman import Ferryman, s", "startup.import"),
    ("embedded from nothing, s", "startup.embedded"),
)


def table(rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table that is aligned for reading as text, too."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows
    ]
    return "\n".join([lines[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *lines[1:]])


def progress(line: Line) -> str:
    said = line.get("error") or "  ".join(f"{name} {bars.number(value)}" for name, value in line["figures"].items())
    noise = f"  (others: {line['others']} of a core)" if line["others"] > bars.BUSY else ""
    work = f"{line['work']} {line['size']:,}" if "size" in line else line["work"]
    return f"[{line['round'] + 1}] {work:9} {line['peer']:14}{line['seconds']:5.1f} s  {said}{noise}"


def cell(results: bars.Results, figure: str, peer: str) -> str:
    rounds = results.rounds(figure, peer).values()
    median = results.median(figure, peer)
    if median is None:
        return "-"
    # Ranges of all of them would make the table too wide to read; those of the peers stand in one of their own.
    if len(rounds) < 2 or peer not in (bars.OURS, bars.FLOOR):
        return bars.number(median)
    return f"{bars.number(median)} ({reach(rounds)})"


def reach(rounds: Collection[float]) -> str:
    return f"{bars.number(min(rounds))}..{bars.number(max(rounds))}"


def marked(results: bars.Results, peers: Sequence[str]) -> list[str]:
    return [f"{peer}*" if peer in results.fragile else peer for peer in peers]


def figures(results: bars.Results, peers: Sequence[str]) -> str:
    rows = [["", *marked(results, peers)]]
    for label, figure in FIGURES:
        if any(results.rounds(figure, peer) for peer in peers):
            rows.append([label, *(cell(results, figure, peer) for peer in peers)])
    return table(rows)


def spread(results: bars.Results, peers: Sequence[str]) -> list[str]:
    """The lowest and the highest of the rounds of each peer; empty where none has two."""
    others = [peer for peer in peers if peer not in (bars.OURS, bars.FLOOR)]
    rows = [["min..max", *marked(results, others)]]
    for label, figure in FIGURES:
        found = [results.rounds(figure, peer).values() for peer in others]
        if any(len(rounds) > 1 for rounds in found) and not figure.endswith(".jobs"):
            rows.append([label, *(reach(rounds) if len(rounds) > 1 else "-" for rounds in found)])
    return [table(rows)] if len(rows) > 1 else []


def judged(results: bars.Results) -> list[str]:
    """What became of the bars, in sentences, then one by one."""
    found = contract.judge(results)
    rows = [["rule", "what", "ours", "against", "ratio (range)", "bar", "goal", "verdict"]]
    for rule, each in found:
        ours = "-" if each.ours is None else bars.number(each.ours)
        rows.append([rule, each.what, ours, each.against, each.ratio, each.bar, each.goal, each.verdict])
    return [verdicts.told(found), table(rows)] if found else []


def judged_by(record: Record) -> bars.Results:
    """The figures of a record, with what a verdict must know of who is not in it."""
    return bars.Results(record.lines, record.planned, filter(venvs.durable, record.head.get("absent", ())))


def tables(record: Record) -> str:
    """What a run has found, as text."""
    results = judged_by(record)
    parts = [
        conditions(record),
        figures(results, list(record.head["peers"])),
        *spread(results, list(record.head["peers"])),
        *judged(results),
        "\n".join(settings(record.head)),
    ]
    return "\n\n".join(parts + remarks(record))


def conditions(record: Record) -> str:
    head = record.head
    rounds = len({line["round"] for line in record.lines})
    whole = f", without {len(record.missing)} planned measurements, which are named below" if record.missing else ""
    code = f"; code of {' and '.join(record.commits)}" if record.commits else ""
    return (
        f"PostgreSQL {head['postgres']}, fsync {head['fsync']}, synchronous_commit {head['synchronous_commit']} ({EXCEPT}),"
        f" unix socket; Python {head['python']}; {head['cores']} cores; {rounds} round{'s' if rounds > 1 else ''}{whole},"
        f" jobs x {head['scale']:g}; {head['at']}{code}. Medians (min..max)."
    )


def settings(head: Line) -> list[str]:
    lines: list[str] = []
    for peer, about in head["peers"].items():
        installed = ", ".join(f"{name} {version}" for name, version in sorted(about["versions"].items()))
        mark = "" if about["durable"] else "* (not durable)"
        lines.append(f"- {peer}{mark}: {installed}; {about['settings']}")
    return lines + [f"- {peer} could not run: {why}" for peer, why in head["absent"].items()]


def remarks(record: Record) -> list[str]:
    """What a reader must know before believing the tables."""
    lines = record.lines
    busy = [line for line in lines if line["others"] > bars.BUSY]
    said = [f"Failed: {line['work']} of {line['peer']}: {line['error'].strip()}" for line in lines if "error" in line]
    said += [f"Not measured, for the run ended before: {each}." for each in gaps(record.missing)]
    said += [f"Not measured, for it was not asked for: {each}." for each in unasked(record)]
    if record.head["disk"] in IN_MEMORY:
        said.append(
            f"The data lay on {record.head['disk']}: flushes cost nothing there, and these figures mean little."
        )
    if busy:
        most = max(line["others"] for line in busy)
        said.append(
            f"Other programs were busy: in {len(busy)} of {len(lines)} measurements they used more than {bars.BUSY} of a core"
            f" (at most {most:.1f}). Measure again before believing a ratio."
        )
    return said


def gaps(missing: Sequence[Item]) -> list[str]:
    """Name what is missing, a workload at a time."""
    said = []
    for work in dict.fromkeys(item.work for item in missing):
        items = [item for item in missing if item.work == work]
        rounds = ", ".join(str(number + 1) for number in sorted({item.round for item in items}))
        who = ", ".join(dict.fromkeys(item.peer if item.size is None else f"{item.size:,}" for item in items))
        said.append(f"{work} in round {rounds} ({who})")
    return said


def unasked(record: Record) -> list[str]:
    """Name the peers that could have been in a workload that others were in, and were in no plan of it."""
    done = {(line["work"], line["peer"]) for line in record.lines} | {(item.work, item.peer) for item in record.missing}
    said = []
    for work in dict.fromkeys(line["work"] for line in record.lines):
        able = [peer for peer, about in record.head["peers"].items() if work in about.get("works", ())]
        if absent := [peer for peer in able if (work, peer) not in done]:
            said.append(f"{work} of {', '.join(absent)}")
    return said


def write_docs(path: Path, text: str) -> None:
    """Replace what stands between the markers of a page."""
    before, begin, rest = path.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{path} has no place for the tables: write {BEGIN} and {END} into it.")
    path.write_text(f"{before}{begin}\n\n{text}\n\n{end}{after}")
