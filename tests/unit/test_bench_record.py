from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench import costs, page, ranks, report, run
from bench.bars import Results
from bench.record import Item, Record


def line(work: str = "drain1", *, round: int = 0, peer: str = "ferryman", **more: Any) -> dict[str, Any]:
    return {"work": work, "round": round, "peer": peer, "seconds": 1.0, "others": 0.0, **more}


HEAD: dict[str, Any] = {
    "at": "2026-11-16", "python": "3.11", "postgres": "18.4", "fsync": "on", "synchronous_commit": "on", "cores": 2,
    "disk": "ext4", "scale": 1.0, "absent": {"celery": "no redis-server"},
    "peers": {"ferryman": {"settings": "as it comes", "versions": {}, "durable": True}},
}  # fmt: skip


def test_a_run_that_was_broken_off_knows_what_it_has_measured(tmp_path: Path) -> None:
    Record(tmp_path / "r.jsonl").add(line(figures={"rate": 1.0}))

    again = Record(tmp_path / "r.jsonl")

    assert again.has(Item(0, "drain1", "ferryman"))
    assert not again.has(Item(1, "drain1", "ferryman"))


def test_what_failed_is_measured_again(tmp_path: Path) -> None:
    record = Record(tmp_path / "r.jsonl")

    record.add(line(error="it broke"))
    assert not record.has(Item(0, "drain1", "ferryman"))

    record.add(line(figures={"rate": 1.0}))
    assert [each.get("error") for each in Record(tmp_path / "r.jsonl").lines] == [None]


def test_sizes_of_one_variable_are_measurements_of_their_own(tmp_path: Path) -> None:
    record = Record(tmp_path / "r.jsonl")

    record.add(line("growth_queues", size=1, figures={"cpu": 1.0}))

    assert not record.has(Item(0, "growth_queues", "ferryman", 10))


def test_a_peer_that_came_later_is_not_named_as_absent(tmp_path: Path) -> None:
    record = Record(tmp_path / "r.jsonl")
    record.add(HEAD)

    record.add({**HEAD, "absent": {}, "peers": {"celery": {"settings": "", "versions": {}, "durable": False}}})

    assert record.head["absent"] == {}
    assert set(record.head["peers"]) == {"ferryman", "celery"}


def test_a_run_that_ended_early_says_what_it_has_not_measured(tmp_path: Path) -> None:
    record = Record(tmp_path / "r.jsonl")
    record.add(
        {**HEAD, "planned": [Item(number, "drain1", peer) for number in (0, 1) for peer in ("ferryman", "floor")]}
    )
    record.add(line(figures={"rate": 1.0}))
    record.add(line(peer="floor", figures={"rate": 1.0}))
    record.add(line(round=1, error="it broke"))

    again = Record(tmp_path / "r.jsonl")

    assert again.missing == [Item(1, "drain1", "floor")]
    assert "without 1 planned measurement" in report.conditions(again)
    assert report.remarks(again) == [
        "Failed: drain1 of ferryman: it broke",
        "Not measured, for the run ended before: drain1 in round 2 (floor).",
    ]


def test_a_report_tells_the_bars_that_a_run_was_to_judge_and_cannot(tmp_path: Path) -> None:
    record = Record(tmp_path / "r.jsonl")
    record.add({**HEAD, "planned": [Item(0, "steps", "ferryman"), Item(0, "growth_queues", "ferryman", 1)]})
    record.add(line("steps", error="it broke"))

    said = report.tables(record)

    assert "Of 3 bars: 0 met, 0 undecided inside, 0 undecided outside, 0 missed, 3 not measured." in said
    assert [row.split("|")[1].strip() for row in said.splitlines() if row.endswith("not measured |")] == [
        "P7",
        "P13",
        "P13",
    ]


def test_a_run_that_is_whole_says_nothing_of_the_kind(tmp_path: Path) -> None:
    record = Record(tmp_path / "r.jsonl")
    record.add({**HEAD, "planned": [Item(0, "drain1", "ferryman")]})
    record.add(line(figures={"rate": 1.0}))

    assert report.remarks(record) == []
    assert "planned" not in report.conditions(record)


def test_a_peer_that_nobody_asked_for_is_named(tmp_path: Path) -> None:
    record = Record(tmp_path / "r.jsonl")
    peers = {
        "dbos": {**HEAD["peers"]["ferryman"], "works": ["deep"]},
        "awa": {**HEAD["peers"]["ferryman"], "works": []},
    }
    record.add({**HEAD, "peers": HEAD["peers"] | peers})
    record.add(line("deep", figures={"finished_share": 1.0}))

    assert report.remarks(record) == ["Not measured, for it was not asked for: deep of dbos."]


def test_results_of_another_commit_are_not_mixed_in_unawares(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = Record(tmp_path / "r.jsonl")
    record.add({**HEAD, "commit": "an older one"})

    assert run.main(["--work", "gate", "--store", str(record.path)]) == 2
    assert "an older one" in capsys.readouterr().out
    assert len(Record(record.path).heads) == 1


def test_a_quick_look_does_not_write_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run.parse(["--quick", "--write-docs"])
    assert "fewer jobs and rows than the page speaks of" in capsys.readouterr().err

    record = Record(tmp_path / "r.jsonl")
    record.add({**HEAD, "scale": run.QUICK})

    assert run.main(["--report", "--write-docs", "--store", str(record.path)]) == 2
    assert "holds results of --quick" in capsys.readouterr().out


def test_what_takes_minutes_runs_once_and_the_rest_in_every_round() -> None:
    asked = run.parse(["--work", "gate,crowd"])

    assert [(item.round, item.work) for item in run.plan(asked, {run.OURS: None})] == [  # type: ignore[dict-item]
        (number, work) for number in range(3) for work in ("gate", "crowd")
    ]


@pytest.mark.parametrize(("work", "peers"), [("growth,horizon,turns", 1), ("growth,drain1", len(run.PEERS))])
def test_peers_are_opened_only_for_what_they_can_do(work: str, peers: int) -> None:
    assert len(run.parse(["--work", work]).peers) == peers


def test_the_page_shows_curves_the_horizon_and_who_could_not_run(tmp_path: Path) -> None:
    record = Record(tmp_path / "r.jsonl")
    record.add(HEAD)
    for size, cpu in ((1, 100.0), (100, 300.0)):
        figures = {"rate": 1e6 / cpu, "cpu": cpu, "cpu_worker": cpu / 2, "cpu_store": cpu / 2}
        record.add(line("growth_queues", size=size, figures=figures))
    held = {"usual_0": 9.0, "held_0": 8.0, "held_1": 7.0, "least_share": 0.78, "end_share": 0.78, "third_1": 7.5}
    record.add(line("horizon", figures=held))
    (tmp_path / "pictures").mkdir()
    (tmp_path / "performance.md").write_text("<!-- bench: begin --><!-- bench: end -->")

    page.write(tmp_path, record)

    said = (tmp_path / "performance.md").read_text()
    assert "bends upward" in said
    assert "celery could not run: no redis-server" in said
    assert "pictures/horizon.svg" in said
    assert "middle third 7.5" in said
    drawn = (tmp_path / "pictures" / "growth-queues.svg").read_text()
    assert "prefers-color-scheme: dark" in drawn
    assert drawn.count("<circle") == 6


def test_peers_stand_beside_each_other_from_the_best_to_the_last(tmp_path: Path) -> None:
    record = Record(tmp_path / "r.jsonl")
    record.add(HEAD)
    for peer, rate in (("slow", 10.0), ("ferryman", 1_000.0), ("quick", 100.0), ("floor", 10_000.0)):
        record.add({**line("drain1", figures={"rate": rate, "cpu_worker": 1.0, "cpu_store": 1.0}), "peer": peer})
    (tmp_path / "pictures").mkdir()
    (tmp_path / "performance.md").write_text("<!-- bench: begin --><!-- bench: end -->")

    page.write(tmp_path, record)

    assert "pictures/peers-drain-one.svg" in (tmp_path / "performance.md").read_text()
    drawn = (tmp_path / "pictures" / "peers-drain-one.svg").read_text()
    places = [drawn.index(f">{peer}</text>") for peer in ("ferryman", "floor", "quick", "slow")]
    assert places == sorted(places)


def test_a_factor_is_as_long_everywhere() -> None:
    slow, quick, floor = ranks.spread([10.0, 100.0, 1_000.0])

    assert slow > 0
    assert quick - slow == pytest.approx(floor - quick)
    assert floor == 1.0


def test_more_cpu_of_our_own_does_not_raise_the_limit() -> None:
    def of_that(cpu: float) -> str:
        ours = {"rate": 10_000.0, "cpu_worker": cpu, "cpu_store": cpu}
        found = [line(figures=ours), line(peer="floor", figures={"rate": 100_000.0})]
        table, *_ = costs.told(Results(found), cores=2)
        return table.splitlines()[-1].split("|")[4].strip()

    assert of_that(0.1) == of_that(0.2) == "10.0x"
