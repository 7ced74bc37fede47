"""R3: what a soak calls growth."""

import random
from pathlib import Path
from typing import Any

import psycopg
import pytest

from chaos import __main__ as program
from chaos import aims, soak, terms
from chaos.sea import Sea
from ferryman.kernel.settings import Settings

MIB = float(1 << 20)
HOUR = 3600.0
TIMES = [HOUR * 0.2 + n * 60.0 for n in range(48)]  # the looks of an hour, after its warm-up


LEVEL = {
    "memory": 60 * MIB, "descriptors": 36.0, "connections": 12.0, "dead share": 0.1, "bytes a row": 900.0, "bytes": 40 * MIB,
    "tasks ended a second": 240.0, "dead rows": 0.1, "oldest transaction": 0.5,
}  # fmt: skip


def gauge(seconds: float = HOUR, *, retention: float | None = None) -> soak.Gauge:
    """One that was told what it has seen."""
    nobody: Any = None
    made = soak.Gauge(nobody, nobody, seconds, retention=retention)
    for kind, who in soak.WANTED if retention is None else soak.WANTED_OF_LEAVING:
        value, life = LEVEL[kind], f"{who}.1" if who == soak.SPARED else who
        made.seen[kind, life] = [(at * seconds / HOUR, value) for at in TIMES]
    return made


def grown(made: soak.Gauge) -> list[str]:
    """What fails a soak."""
    kept = {"lost": 0, "acknowledged": 9, "second_ends": 0, "tasks": 9, "overdue": 0, "looks": 9}
    spared = {"seconds": 2.0, "begun": 9, "beside": 1.0}
    return aims.short({**kept, "spared": spared, "soak": made.told(), "levels": made.levels(), "wide": {}})


def grow(made: soak.Gauge, kind: str, an_hour: float) -> None:
    """Let one thing grow, with the noise of an ordinary day around it."""
    [key] = [each for each in made.seen if each[0] == kind]
    dice = random.Random(7)
    points = made.seen[key]
    first, middle = points[0]
    risen = an_hour * (points[-1][0] - first) / HOUR
    made.seen[key] = [
        (at, middle + an_hour * (at - first) / HOUR + dice.uniform(-0.05, 0.05) * risen) for at, _ in points
    ]


GROWTHS = [("memory", 8 * MIB), ("descriptors", 4.0), ("connections", 2.0), ("dead share", 0.05), ("bytes a row", 45.0)]


@pytest.mark.contract("R3")
@pytest.mark.parametrize(("kind", "bar"), GROWTHS)
def test_what_grows_faster_than_its_bar_in_an_hour_fails_a_soak(kind: str, bar: float) -> None:
    slow, fast = gauge(), gauge()
    grow(slow, kind, bar * 0.9)
    grow(fast, kind, bar * 1.2)

    assert grown(slow) == []
    assert [f"{kind}, what grew most" in each for each in grown(fast)] == [True]


@pytest.mark.contract("R3")
def test_a_death_or_a_cut_now_and_then_is_no_growth() -> None:
    made = gauge()
    points = made.seen["connections", "a process"]
    # Now and then somebody has only just been born at a look, and in the last minutes more is wanted at once than in the first.
    for place, value in ((3, 6.0), (13, 6.0), (23, 6.0), (40, 24.0), (45, 24.0), (46, 24.0), (47, 24.0)):
        points[place] = points[place][0], value

    assert grown(made) == []


@pytest.mark.contract("R3")
def test_a_run_of_minutes_may_grow_by_what_an_hour_may_and_no_more() -> None:
    slow, fast = gauge(240.0), gauge(240.0)
    grow(slow, "memory", 8 * MIB * 15 * 0.9)
    grow(fast, "memory", 8 * MIB * 15 * 1.2)

    assert grown(slow) == []
    assert len(grown(fast)) == 1


def level(made: soak.Gauge, kind: str, who: str, value: float, *, of: int = 48) -> None:
    """Let one thing be at a height all the time, or at some of the looks."""
    made.seen[kind, who] = [(at, value if n < of else 0.0) for n, at in enumerate(TIMES)]


@pytest.mark.contract("R3")
def test_rows_of_which_many_are_dead_fail_a_soak_also_where_they_grow_no_more_than_others() -> None:
    swept, unswept = gauge(), gauge()
    level(swept, "dead rows", "tasks", 0.2)
    level(unswept, "dead rows", "tasks", 0.6)
    level(unswept, "dead share", "database", 0.6)

    assert grown(swept) == []
    assert ["dead rows in the middle" in each and "60.0 % (tasks, of 48 looks)" in each for each in grown(unswept)] == [
        True
    ]


@pytest.mark.contract("R3")
@pytest.mark.parametrize(
    ("seconds", "retention", "least"),
    [(HOUR, None, 0.2), (1200.0, None, 0.2), (240.0, None, 0.56), (1200.0, 60.0, 0.75)],
)
def test_where_rows_are_few_beside_what_dies_between_two_vacuums_more_of_them_may_be_dead(
    seconds: float, retention: float | None, least: float
) -> None:
    made = gauge(seconds, retention=retention)

    assert made.levels()["dead rows"]["bar"] == pytest.approx(least, abs=0.01)


@pytest.mark.contract("R3")
def test_a_transaction_of_ours_that_stays_open_fails_a_soak_by_one_look() -> None:
    short, long = gauge(), gauge()
    level(short, "oldest transaction", "all", 29.0)
    level(long, "oldest transaction", "all", 31.0, of=1)

    assert grown(short) == []
    assert ["oldest transaction of ours" in each and "31.0 s" in each for each in grown(long)] == [True]


@pytest.mark.contract("R3")
def test_where_rows_leave_the_bytes_of_a_table_must_be_level() -> None:
    slow, fast = gauge(retention=60.0), gauge(retention=60.0)
    grow(slow, "bytes", 4 * MIB * 0.9)
    grow(fast, "bytes", 4 * MIB * 1.2)

    assert grown(slow) == slow.unseen() == []
    assert ["bytes, what grew most" in each and "MiB an hour" in each for each in grown(fast)] == [True]


@pytest.mark.contract("R3")
@pytest.mark.parametrize("kind", [*soak.BARS, *soak.LEVELS])
def test_what_was_not_looked_at_long_enough_fails_a_soak(kind: str) -> None:
    made = gauge(retention=60.0 if kind == "bytes" else None)
    [key] = [each for each in made.seen if each[0] == kind]
    del made.seen[key][19:]

    assert [f"the {kind} of" in each and "not looked at" in each for each in made.unseen()] == [True]


@pytest.mark.contract("R3")
@pytest.mark.parametrize(("seconds", "bar"), [(HOUR, 60.0), (240.0, 60.0 * 15)])
def test_work_that_gets_slower_by_more_than_a_quarter_in_an_hour_fails_a_soak(seconds: float, bar: float) -> None:
    slow, slower, faster = gauge(seconds), gauge(seconds), gauge(seconds)
    # The middle of what falls is lower, and its bar with it.
    grow(slow, "tasks ended a second", -bar * 0.8)
    grow(slower, "tasks ended a second", -bar * 1.2)
    grow(faster, "tasks ended a second", bar * 2)

    assert grown(slow) == grown(faster) == []
    assert ["tasks ended a second, how much fewer" in each for each in grown(slower)] == [True]


@pytest.mark.contract("R3")
def test_outages_now_and_then_do_not_make_work_slower() -> None:
    made = gauge()
    points = made.seen["tasks ended a second", "workers"]
    for place in (5, 20, 40, 44, 46):
        points[place] = points[place][0], 20.0

    assert grown(made) == []


class Log:
    """A database whose log is asked where it is, and what has ended since; it is away at one look."""

    def __init__(self) -> None:
        self.answers: list[list[dict[str, Any]]] = [
            [{"last": 40}],
            [{"n": 120.0, "last": 400}],
            [],
            [{"n": 90.0, "last": 700}],
        ]
        self.asked: list[tuple[object, ...]] = []

    def ask(self, question: str, *values: object) -> list[dict[str, Any]]:
        if "ferryman.events" not in question:
            return []
        self.asked.append(values)
        return self.answers.pop(0)


@pytest.mark.contract("R3")
def test_tasks_are_counted_from_one_look_to_the_next_also_over_an_outage() -> None:
    log, nobody = Log(), Nobody()
    made = soak.Gauge(log, nobody, HOUR)  # type: ignore[arg-type]
    first = made._next

    for look in range(4):
        made.look(first + look * 60.0)

    assert made.seen["tasks ended a second", "workers"] == [(first + 60.0, 2.0), (first + 180.0, 0.75)]
    assert log.asked == [(), (40, 40), (400, 400), (400, 400)]


class Nobody:
    """A fleet in which nobody lives."""

    def of(self, *_wanted: str) -> list[Any]:
        return []


@pytest.mark.contract("R3")
async def test_a_table_whose_rows_stay_and_whose_bytes_grow_is_seen(database_url: str, tmp_path: Path) -> None:
    sea, nobody = Sea(tmp_path), Nobody()
    sea.url = database_url
    made = soak.Gauge(sea, nobody, HOUR)  # type: ignore[arg-type]
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("create table ferryman.kept (n integer, words text) with (autovacuum_enabled = false)")
        for later in range(4):
            connection.execute(
                "insert into ferryman.kept select n, repeat('x', 100) from generate_series(1, 10000) as n"
            )
            made.look(made._next + later)
        connection.execute("update ferryman.kept set n = n + 1")
        connection.execute("select pg_stat_force_next_flush()")
        made.look(made._next + 4)
        connection.execute("vacuum ferryman.kept")  # whose room nobody takes
        made.look(made._next + 5)

    sizes = [value for _, value in made.seen["bytes a row", "kept"]]
    assert max(sizes[:5]) == pytest.approx(min(sizes[:5]), rel=0.05)
    assert sizes[5] == pytest.approx(2 * sizes[4], rel=0.05)
    assert len(made.seen["dead share", "database"]) == len(made.seen["connections", "a process"]) == 6


@pytest.mark.contract("R3")
@pytest.mark.parametrize("retention", [None, 60.0])
async def test_the_dead_of_a_table_are_not_thinned_out_by_the_log_and_who_keeps_them_is_seen(
    database_url: str, tmp_path: Path, retention: float | None
) -> None:
    sea, nobody = Sea(tmp_path), Nobody()
    sea.url = database_url
    made = soak.Gauge(sea, nobody, HOUR, retention=retention)  # type: ignore[arg-type]
    with (
        psycopg.connect(database_url, autocommit=True) as connection,
        psycopg.connect(database_url, application_name="ferryman idle") as open_for_ever,
    ):
        connection.execute("create table ferryman.kept (n integer, words text) with (autovacuum_enabled = false)")
        connection.execute("insert into ferryman.kept select n, repeat('x', 100) from generate_series(1, 10000) as n")
        connection.execute("create table ferryman.events_of_a_day as select n from generate_series(1, 90000) as n")
        open_for_ever.execute("select pg_current_xact_id()")
        connection.execute("update ferryman.kept set n = n + 1")
        connection.execute("vacuum ferryman.kept")
        [(since,)] = connection.execute(
            "select extract(epoch from clock_timestamp() - xact_start)::float8 from pg_stat_activity"
            " where application_name = 'ferryman idle'"
        ).fetchall()
        made.look(made._next)

    assert [value for _, value in made.seen["dead rows", "kept"]] == [pytest.approx(0.5, rel=0.05)]
    assert [value for _, value in made.seen["dead share", "database"]] == [pytest.approx(0.5, rel=0.05)]
    assert [value >= since for _, value in made.seen["oldest transaction", "all"]] == [True]
    assert {who for kind, who in made.seen if kind == "dead rows"} == {"kept"}


@pytest.mark.contract("R3")
async def test_where_rows_leave_tables_that_are_kept_are_not_looked_at(database_url: str, tmp_path: Path) -> None:
    sea, nobody = Sea(tmp_path), Nobody()
    sea.url = database_url
    made = soak.Gauge(sea, nobody, HOUR, retention=60.0)  # type: ignore[arg-type]
    with psycopg.connect(database_url, autocommit=True) as connection:
        for table in ("kept", "events_of_a_day"):
            connection.execute(
                f"create table ferryman.{table} as select n, repeat('x', 100) from generate_series(1, 20000) as n"
            )
    made.look(made._next)

    [(_, size)] = made.seen["bytes", "kept"]
    assert size > MIB
    assert {who for kind, who in made.seen if kind.startswith("bytes")} == {"kept"}


@pytest.mark.contract("R3")
def test_what_has_ended_leaves_by_settings_that_the_product_knows_and_in_a_soak_alone(
    capsys: pytest.CaptureFixture[str],
) -> None:
    kept = terms.kept(90.0)
    assert set(kept.values()) == {"90s"}
    for name in kept:
        section, setting = name.removeprefix("FERRYMAN_").lower().split("__")
        assert hasattr(getattr(Settings(), section), setting)
    assert terms.kept(None) == {}

    for wrong in (["--retention", "90"], ["--soak", "--retention", "30"]):
        with pytest.raises(SystemExit):
            program.main(wrong)
    assert capsys.readouterr().err.count("expected 60 s or more, and --soak") == 2
