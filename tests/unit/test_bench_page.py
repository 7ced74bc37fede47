"""What the page tells beside the verdicts."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from bench import beside, costs, limit, page, report, venvs
from bench.bars import Results


def line(work: str, **figures: float) -> dict[str, Any]:
    return {"work": work, "round": 0, "peer": "ferryman", "seconds": 1.0, "others": 0.0, "figures": figures}


def cells(table: str, what: str) -> list[str]:
    [row] = [row for row in table.splitlines() if row.startswith(f"| {what}")]
    return [cell.strip() for cell in row.strip("|").split("|")][1:]


def test_the_memory_of_a_worker_is_told_of_more_than_the_drain() -> None:
    found = Results([line("steps", memory=59.0), line("commands", memory=68.0), line("turns", memory=70.0)])

    assert cells(report.figures(found, ["ferryman"]), "memory peak in 10-step workflows, MB") == ["59"]
    [table] = beside.told(found)
    assert cells(table, "memory at most, commands") == ["68"]
    assert cells(table, "memory at most, turns") == ["70"]


def test_what_is_measured_of_batches_and_the_gate_is_shown() -> None:
    shapes = {
        "small": 1.0,
        "middle": 2.0,
        "crowd_rate": 3.0,
        "together_rate": 4.0,
        "together_first": 5.0,
        "together_p50": 6.0,
    }
    trips = {f"trips_{top}": 0.5 for top in (10, 100, 1_000, 100_000)}

    [table] = beside.told(Results([line("shapes", **shapes), line("gate", **trips), line("batches", outside_p50=7.0)]))

    assert len(table.splitlines()) == 2 + len(shapes) + len(trips) + 1


def test_where_the_time_goes_holds_resumptions_and_batches() -> None:
    spent = {"p50": 10.0, "cpu_worker": 40.0, "cpu_store": 60.0}

    table, *_ = costs.told(Results([line("resume", **spent), line("batches", **spent)]), cores=2)

    for what in ("suspend, tool, resume", "fork 100 turns and join"):
        assert cells(table, what)[:7] == ["10,000", "-", "-", "4,000", "6,000", "5,000", "2.0x"]


def test_the_limit_is_told_in_commits_of_the_same_run() -> None:
    found = [line("enqueue", single=1_000.0), line("drain1", rate=25_000.0), line("latency", end_p50=3.0)]
    found += [line("schedule", last_per_1000=40.0), line("steps", rate=2_500.0)]
    found += [
        {**line("enqueue", single=2_000.0), "peer": "floor"},
        {**line("enqueue", single=1_600.0), "peer": "absurd"},
    ]

    told, table, _ = limit.told(
        Results(found), [{"trip_us": 50.0, "commit_us": commit} for commit in (200.0, 250.0, 900.0)]
    )

    assert "One by one nobody creates more than 4,000 a second here; the goal of P1 asks for 0.60 of that." in told
    assert cells(table, "create one by one") == ["1", "250", "500", "2.0x", "1,000", "4.0x"]
    assert cells(table, "drain, 1 worker") == ["0.002", "0.5", "-", "-", "40", "80.0x"]
    assert cells(table, "one of 10,000 due at once") == ["0.002", "0.5", "-", "-", "40", "80.0x"]
    assert cells(table, "10-step workflow") == ["0.022", "5.5", "-", "-", "400", "72.7x"]
    assert cells(table, "durable end of a lone task") == ["2", "500", "-", "-", "3,000", "6.0x"]


def test_a_run_that_timed_no_commit_tells_no_limit() -> None:
    assert limit.told(Results([line("drain1", rate=25_000.0)]), [{}]) == []


def test_what_is_of_ours_alone_says_so() -> None:
    assert page.alone(Results([line("deep10", finished_share=1.0)])) == [page.ALONE]
    assert page.alone(Results([line("deep", finished_share=1.0)])) == []


def test_the_spread_of_the_peers_is_told() -> None:
    found = [
        {**line("drain1", rate=rate, jobs=10.0), "peer": peer, "round": number}
        for peer, rates in (("pgqueuer", (9.0, 8.0, 10.0)), ("awa", (5.0,)), ("ferryman", (20.0, 21.0)))
        for number, rate in enumerate(rates)
    ]

    [table] = report.spread(Results(found), ["ferryman", "floor", "pgqueuer", "awa"])

    assert cells(table, "drain, 1 worker, /s") == ["8..10", "-"]
    assert "jobs" not in table
    assert report.spread(Results(found), ["ferryman", "awa"]) == []


def test_the_peak_of_a_process_is_its_own_and_not_that_of_who_started_it() -> None:
    starts = "import subprocess, sys; big = b'x' * 300_000_000; subprocess.run([sys.executable, '-c', sys.argv[1]], check=True)"
    tells = "from bench.turns import peak; print(peak())"

    said = subprocess.run(
        [sys.executable, "-c", starts, tells], cwd=venvs.ROOT, check=True, capture_output=True, text=True
    ).stdout

    assert 10 < float(said) < 200
