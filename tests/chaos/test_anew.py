"""R3: a soak finds what takes more bytes than its rows are worth."""

import psycopg
import pytest
from psycopg.rows import dict_row

from chaos import aims, anew
from chaos.checker.evidence import Connection
from tests.chaos.test_report import SOAK

FILL = """
    create table ferryman.kept (id integer primary key, word text) with (autovacuum_enabled = off);
    insert into ferryman.kept select n, repeat('x', 200) from generate_series(1, {rows}) as n
"""


def widths(url: str, rows: int, *statements: str) -> dict[str, anew.Width]:
    """What a table and its index came to after these statements."""
    with psycopg.connect(url, autocommit=True, row_factory=dict_row) as connection:
        opened: Connection = connection
        opened.execute(FILL.format(rows=rows).encode())
        for statement in statements:
            opened.execute(statement.encode())
        return {each.name: each for each in anew.widths(opened, least=1 << 17)}


@pytest.mark.contract("R3")
def test_what_lies_close_together_takes_what_it_takes_anew(database_url: str) -> None:
    found = widths(database_url, 20_000)

    assert found["kept"].times < 1.1
    assert found["kept_pkey"].times < 1.1
    assert found["kept"].bytes > found["kept_pkey"].bytes > 1 << 17


@pytest.mark.contract("R3")
def test_a_table_that_nobody_vacuums_is_found_and_so_is_its_index(database_url: str) -> None:
    found = widths(database_url, 20_000, *["update ferryman.kept set id = id + 20000"] * 3)

    assert found["kept"].times > anew.TABLE_TIMES
    assert found["kept_pkey"].times > anew.INDEX_TIMES


@pytest.mark.contract("R3")
def test_pages_that_fill_at_any_place_are_no_bloat(database_url: str) -> None:
    scatter = """
        alter table ferryman.kept add column place text;
        create index kept_place on ferryman.kept (place);
        insert into ferryman.kept select n, 'x', md5(n::text) from generate_series(20001, {last}) as n
    """
    # Half a wave, and a whole one.
    for last in (40_000, 60_000):
        found = widths(database_url, 20_000, scatter.format(last=last), "reindex table ferryman.kept")
        assert found["kept_place"].times <= anew.INDEX_TIMES
        with psycopg.connect(database_url, autocommit=True) as connection:
            connection.execute("drop table ferryman.kept")


@pytest.mark.contract("R3")
def test_keys_that_run_up_in_rows_written_three_times_are_no_bloat(database_url: str) -> None:
    begin = """
        alter table ferryman.kept add column key text;
        create unique index kept_key on ferryman.kept (key);
        create index kept_word on ferryman.kept (word)
    """
    # Three producers in turn, each twenty keys at a time; what they make is claimed and settled five sets later.
    live = """
        insert into ferryman.kept
            select {set} * 20 + n, 'ready', format('producer-%s:%s-%s', {set} % 3, {set}, n) from generate_series(1, 20) as n;
        update ferryman.kept set word = 'running' where id > ({set} - 5) * 20 and id <= ({set} - 4) * 20;
        update ferryman.kept set word = 'done' where id > ({set} - 5) * 20 and id <= ({set} - 4) * 20
    """
    lives = [statement for number in range(1000) for statement in live.format(set=number).split(";")]

    found = widths(database_url, 0, begin, *lives, "vacuum ferryman.kept")

    assert anew.INDEX_TIMES * 2 / 3 < found["kept_key"].times <= anew.INDEX_TIMES


@pytest.mark.contract("R3")
def test_the_widest_of_each_kind_is_told_beside_its_bar() -> None:
    found = [
        anew.Width("a", False, 300, 100),
        anew.Width("b", False, 110, 100),
        anew.Width("a_key", True, 150, 100),
        anew.Width("empty", True, 90, 0),
    ]

    assert anew.told(found) == {
        "a table": {"name": "a", "is_index": False, "bytes": 300, "anew": 100, "times": 3.0, "bar": 1.5, "judged": 2},
        "an index": {"name": "empty", "is_index": True, "bytes": 90, "anew": 0, "times": 90.0, "bar": 3.0, "judged": 2},
    }


@pytest.mark.contract("R3")
@pytest.mark.parametrize(("width", "said"), [
    (anew.Width("a", False, 150, 100), []),
    (anew.Width("a", False, 151, 100), ["bytes of a table, times what they are written anew"]),
    (anew.Width("a_key", True, 300, 100), []),
    (anew.Width("a_key", True, 301, 100), ["bytes of an index, times what they are written anew"]),
])  # fmt: skip
def test_what_is_too_wide_fails_a_soak(width: anew.Width, said: list[str]) -> None:
    short = aims.short({**SOAK, "wide": anew.told([width])})

    assert [each.partition(": ")[2].partition(", most")[0] for each in short] == said
