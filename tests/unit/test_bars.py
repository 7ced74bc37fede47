from __future__ import annotations

from typing import Any

import pytest

from bench import bars, contract, page, report, verdicts
from bench.record import Item


def lines(work: str, figure: str, **by_peer: list[float]) -> list[dict[str, Any]]:
    return [
        {"work": work, "peer": peer, "round": number, "figures": {figure: value}}
        for peer, values in by_peer.items()
        for number, value in enumerate(values)
    ]


def verdict(check: bars.Ratio | bars.Limit, found: list[dict[str, Any]]) -> str:
    judged = check.judge(bars.Results(found))
    assert judged is not None
    return judged.verdict


@pytest.mark.parametrize(
    ("ours", "said"),
    [
        (3.1, "goal met"),
        (2.9, "bar met; goal undecided, inside"),
        (1.4, "bar undecided, inside; goal undecided, outside"),
        (0.9, "bar undecided, outside; goal missed"),
        (0.6, "bar missed; goal missed"),
    ],
)
def test_a_ratio_within_half_again_of_its_threshold_is_undecided(ours: float, said: str) -> None:
    check = bars.Ratio("drain", "drain1.rate", "pgqueuer", bar=1.0, goal=2)

    assert verdict(check, lines("drain1", "rate", ferryman=[ours, ours], pgqueuer=[1.0, 1.0])) == said


@pytest.mark.parametrize(("ours", "said"), [(0.6, "bar met"), (1.2, "bar undecided, outside"), (1.6, "bar missed")])
def test_where_less_is_better_the_sides_change(ours: float, said: str) -> None:
    check = bars.Ratio("last start", "schedule.last", "pgqueuer", bar=1.0, least=True)

    assert verdict(check, lines("schedule", "last", ferryman=[ours, ours], pgqueuer=[1.0, 1.0])) == said


@pytest.mark.parametrize(
    ("rounds", "said"),
    [
        ([60.0, 61.0], "bar met"),
        ([60.0, 61.0, 65.0], "bar undecided, inside"),
        ([60.0, 65.0, 66.0], "bar undecided, outside"),
        ([65.0, 66.0], "bar missed"),
    ],
)
def test_a_limit_is_met_only_when_every_round_keeps_it(rounds: list[float], said: str) -> None:
    check = bars.Limit("memory", "drain1.memory", 64, "MB")

    assert verdict(check, lines("drain1", "memory", ferryman=rounds)) == said


@pytest.mark.parametrize(
    ("p50", "said"), [(7.0, "goal met"), (9.0, "bar met; goal missed"), (16.0, "bar missed; goal missed")]
)
def test_a_goal_that_is_missed_is_told_beside_a_bar_that_is_met(p50: float, said: str) -> None:
    check = bars.Limit("resume", "resume.p50", 15, "ms", goal=8)

    assert verdict(check, lines("resume", "p50", ferryman=[p50, p50])) == said


def test_what_was_measured_in_one_round_says_so() -> None:
    limit, ratio = bars.Limit("horizon", "horizon.decay", 0.8, ""), bars.Ratio("drain", "drain1.rate", "awa", bar=1.0)

    assert verdict(limit, lines("horizon", "decay", ferryman=[0.7])) == "bar met (once)"
    assert verdict(ratio, lines("drain1", "rate", ferryman=[9.0, 9.0], awa=[1.0])) == "bar met (once)"


def test_a_cost_that_grows_with_its_variable_misses_its_bar() -> None:
    found = [
        {"work": "growth_queues", "peer": "ferryman", "round": 0, "size": size, "figures": {"cpu": cpu}}
        for size, cpu in ((1, 100.0), (10, 100.0), (100, 190.0))
    ]

    [(rule, judged)] = contract.judge(bars.Results(found))

    assert (rule, judged.ours, judged.verdict) == ("P13", 1.9, "bar missed (once)")


def test_a_cost_that_was_higher_in_the_middle_misses_its_bar_though_the_ends_are_level() -> None:
    found = [
        {"work": "growth_queues", "peer": "ferryman", "round": 0, "size": size, "figures": {"cpu": cpu}}
        for size, cpu in ((1, 100.0), (10, 190.0), (100, 100.0))
    ]

    [(_, judged)] = contract.judge(bars.Results(found))

    assert (judged.ours, judged.verdict) == (1.9, "bar missed (once)")


@pytest.mark.parametrize(
    ("worst", "step", "said"),
    [
        (1.4, 1.4, "level"),
        (1.4, 1.6, "level, but rose in the last step"),
        (1.6, 1.1, "grew, and grows no more"),
        (1.6, 1.4, "grew"),
        (1.6, 1.6, "bends upward"),
    ],
)
def test_a_curve_grew_unless_its_last_step_is_level(worst: float, step: float, said: str) -> None:
    assert page.shape(worst, step) == said


def test_the_steeper_last_step_is_not_hidden_by_the_other_of_clock_and_cpu() -> None:
    found = [
        {
            "work": "growth_queues",
            "peer": "ferryman",
            "round": 0,
            "size": size,
            "figures": {"cpu": cpu, "rate": 1 / clock},
        }
        for size, cpu, clock in ((1, 1.0, 1.0), (10, 1.0, 2.0), (100, 1.6, 2.0))
    ]

    table, *_ = page.curves(bars.Results(found))

    assert "| 2.00, 2.00, 1.00 " in table
    assert "| 1.60, 1.60, 1.60 " in table
    assert "| bends upward |" in table


@pytest.mark.parametrize(
    ("variable", "said"), [("connections", ["bar met (once)", "bar missed (once)"]), ("workers", ["bar met (once)"])]
)
def test_time_that_grows_is_judged_where_the_cores_are_not_shared_out(variable: str, said: list[str]) -> None:
    found = [
        {
            "work": f"growth_{variable}",
            "peer": "ferryman",
            "round": 0,
            "size": size,
            "figures": {"cpu": 100.0, "rate": rate},
        }
        for size, rate in ((1, 20_000.0), (60, 11_000.0))
    ]

    assert [judged.verdict for _, judged in contract.judge(bars.Results(found))] == said


def test_a_rate_that_goes_on_falling_while_the_horizon_is_held_is_judged() -> None:
    [(rule, judged)] = contract.judge(bars.Results(lines("horizon", "decay", ferryman=[0.7])))

    assert (rule, judged.verdict) == ("P13", "bar missed (once)")


@pytest.mark.parametrize(("rule", "figure"), [("P1", "single"), ("P2", "flight")])
def test_creates_are_judged_while_nobody_listens_and_while_somebody_does(rule: str, figure: str) -> None:
    found = [
        *lines("enqueue", figure, ferryman=[9_000.0], pgqueuer=[1_000.0], absurd=[900.0]),
        *lines("enqueue", f"{figure}_heard", ferryman=[8_000.0], pgqueuer=[500.0], absurd=[800.0]),
    ]

    assert [(by, judged.ours, judged.against) for by, judged in contract.judge(bars.Results(found))] == [
        (rule, 9_000.0, "pgqueuer 1,000"),
        (rule, 8_000.0, "absurd 800"),
    ]


def test_a_start_before_the_create_returned_counts_as_the_fastest() -> None:
    check = bars.Ratio("start", "latency.start_p50", "pgqueuer", bar=1.3, least=True)

    assert verdict(check, lines("latency", "start_p50", ferryman=[-0.2, -0.2], pgqueuer=[2.5, 2.5])) == "bar met"


def test_a_ratio_measured_while_others_used_the_machine_is_marked() -> None:
    check = bars.Ratio("drain", "drain1.rate", "pgqueuer", bar=1.0)
    found = lines("drain1", "rate", ferryman=[2.0, 2.0], pgqueuer=[1.0, 1.0])
    found[2]["others"] = 0.9

    assert verdict(check, found) == "bar met (busy)"


def test_the_best_peer_is_neither_ourselves_nor_the_floor() -> None:
    found = lines("enqueue", "single", ferryman=[9.0], floor=[8.0], pgqueuer=[2.0], procrastinate=[1.0])

    assert bars.Results(found).best_peer("enqueue.single") == "pgqueuer"


def test_the_best_peer_is_durable() -> None:
    found = lines("enqueue", "single", taskiq=[9.0], pgqueuer=[2.0])
    found[0]["durable"] = False

    assert bars.Results(found).best_peer("enqueue.single") == "pgqueuer"


def test_the_best_of_the_peers_names_those_who_were_not_there() -> None:
    check = bars.Ratio("create", "enqueue.single", bar=1.0)
    found = lines("enqueue", "single", ferryman=[9.0, 9.0], pgqueuer=[2.0, 2.0], celery=[3.0, 3.0])
    found += [{"work": "enqueue", "peer": "absurd", "round": 0, "error": "it hung"}]
    for line in found:
        line["durable"] = line["peer"] != "celery"
    plan = [Item(0, "enqueue", peer) for peer in ("ferryman", "pgqueuer", "celery", "absurd")]

    judged = check.judge(bars.Results(found, plan, ["dbos"]))

    assert judged is not None
    assert (judged.against, judged.verdict) == ("pgqueuer 2", "bar met (without absurd, without dbos)")


def test_who_is_held_against_one_peer_misses_nobody_else() -> None:
    check = bars.Ratio("drain", "drain1.rate", "pgqueuer", bar=1.0)
    found = lines("drain1", "rate", ferryman=[9.0, 9.0], pgqueuer=[2.0, 2.0])

    judged = check.judge(bars.Results(found, absent=["absurd"]))

    assert judged is not None
    assert judged.verdict == "bar met"


def test_two_workers_are_no_slower_than_one_when_no_round_says_so() -> None:
    found = lines("drain1", "rate", ferryman=[10.0, 10.0]) + lines("drain2", "rate", ferryman=[11.0, 9.0])

    [judged] = [each for _, each in contract.judge(bars.Results(found)) if each.what == "2 workers, of 1"]

    assert (judged.ratio, judged.verdict) == ("(0.9..1.1)", "bar undecided, inside")


def test_what_was_not_measured_gets_no_verdict() -> None:
    assert contract.judge(bars.Results(lines("drain1", "rate", pgqueuer=[1.0]))) == []


def planned(*works: str) -> list[Item]:
    return [Item(0, work, "ferryman") for work in works]


def test_a_bar_that_was_planned_and_cannot_be_judged_is_told() -> None:
    results = bars.Results(lines("steps", "rate", ferryman=[2_000.0]), planned("steps", "commands"))

    assert [(rule, each.against, each.verdict) for rule, each in contract.judge(results)] == [
        ("P7", "absurd", "not measured"),
        ("P11", "", "not measured"),
    ]


def test_what_two_workloads_make_together_is_missed_only_when_both_were_planned() -> None:
    def wal(*works: str) -> bool:
        return any(each.what.startswith("WAL") for _, each in contract.judge(bars.Results([], planned(*works))))

    assert wal("enqueue", "drain1")
    assert not wal("enqueue", "drain2")


def test_a_curve_that_lacks_a_size_is_judged_in_part() -> None:
    found = [
        {"work": "growth_queues", "peer": "ferryman", "round": 0, "size": size, "figures": {"cpu": 100.0}}
        for size in (1, 10)
    ]
    sizes = [Item(0, "growth_queues", "ferryman", size) for size in (1, 10, 100)]

    judged = dict((each.what, each.verdict) for _, each in contract.judge(bars.Results(found, sizes)))

    assert judged["CPU per task, queues: the worst size against the smallest"] == "bar met (once, part)"
    assert "level, in part" in page.curves(bars.Results(found, sizes))[0]


def test_a_round_that_failed_is_not_forgotten() -> None:
    check = bars.Limit("memory", "drain1.memory", 64, "MB")
    found = lines("drain1", "memory", ferryman=[60.0, 61.0])
    found += [{"work": "drain1", "peer": "ferryman", "round": 2, "error": "it hung"}]

    judged = check.judge(bars.Results(found, [Item(number, "drain1", "ferryman") for number in range(3)]))

    assert judged is not None
    assert judged.verdict == "bar met (part)"


def test_a_curve_is_busy_when_one_of_its_sizes_was() -> None:
    found: list[dict[str, Any]] = [
        {"work": "growth_queues", "peer": "ferryman", "round": 0, "size": size, "figures": {"cpu": 100.0}}
        for size in (1, 10, 100)
    ]
    found[0]["others"] = 0.9

    [(_, judged)] = contract.judge(bars.Results(found))

    assert judged.verdict == "bar met (once, busy)"


def test_verdicts_are_counted_and_those_not_reached_are_named() -> None:
    found = [
        *lines("drain1", "rate", ferryman=[0.9, 0.9], pgqueuer=[1.0, 1.0], floor=[10.0, 10.0]),
        *lines("drain2", "rate", ferryman=[2.0, 2.0]),
        *lines("startup", "import", ferryman=[0.4, 0.4]),
        *lines("schedule", "last_per_1000", ferryman=[9.0, 9.0], pgqueuer=[10.0, 10.0], floor=[6.0, 6.0]),
    ]

    said = verdicts.told(contract.judge(bars.Results(found, planned("commands"))))

    assert said.split("\n\n") == [
        "Of 5 bars: 1 met, 1 undecided inside, 1 undecided outside, 1 missed, 1 not measured."
        " Undecided outside: P4 drain, 1 worker, /s (against pgqueuer 1)."
        " Missed: P14 from ferryman import Ferryman, s."
        " Not measured: P11 commands with three capabilities, /s.",
        "Of 4 goals: 0 met, 1 undecided inside, 2 not reached, 1 not measured."
        " Not reached: P4 drain, 1 worker, /s (against pgqueuer 1); P4 drain, 1 worker, /s (against floor 10)."
        " Not measured: P11 commands with three capabilities, /s.",
    ]


def test_the_range_of_a_ratio_comes_from_rounds_and_not_from_mixed_ones() -> None:
    check = bars.Ratio("drain", "drain1.rate", "pgqueuer", bar=1.0)

    judged = check.judge(bars.Results(lines("drain1", "rate", ferryman=[20.0, 40.0], pgqueuer=[10.0, 20.0])))

    assert judged is not None
    assert judged.ratio == "2.00 (2.00..2.00)"


def test_the_tables_replace_only_what_stands_between_the_markers(tmp_path: Any) -> None:
    page = tmp_path / "performance.md"
    page.write_text(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n")

    report.write_docs(page, "new")

    assert page.read_text() == f"before\n{report.BEGIN}\n\nnew\n\n{report.END}\nafter\n"


def test_a_page_without_markers_is_refused(tmp_path: Any) -> None:
    page = tmp_path / "performance.md"
    page.write_text("nothing to replace\n")

    with pytest.raises(ValueError, match="bench: begin"):
        report.write_docs(page, "new")
