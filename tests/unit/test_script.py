import pytest

from ferryman.kernel.migrate import hurried
from ferryman.kernel.script import split


@pytest.mark.parametrize(
    ("script", "statements"),
    [
        ("", []),
        ("-- only; words\n/* and; more */ ;", []),
        ("select 1; select 2;", ["select 1", "select 2"]),
        ("select ';'; select 'it''s; fine'", ["select ';'", "select 'it''s; fine'"]),
        (r"select E'a\';b'; select 2", [r"select E'a\';b'", "select 2"]),
        ('select ";"; select 2', ['select ";"', "select 2"]),
        ("do $$ begin; end $$; select 2", ["do $$ begin; end $$", "select 2"]),
        ("do $a$ $$;$$ $a$; select 2", ["do $a$ $$;$$ $a$", "select 2"]),
        ("select 1 -- why; not\n; select 2", ["select 1 -- why; not", "select 2"]),
        ("select 1; /* no end; select 2", ["select 1", "/* no end; select 2"]),
        ("do $$ begin; end; select 2", ["do $$ begin; end; select 2"]),
    ],
)
def test_a_semicolon_ends_a_statement_only_where_it_stands_free(script: str, statements: list[str]) -> None:
    assert split(script) == statements


def test_a_script_waits_for_its_first_table_and_hardly_for_the_next() -> None:
    script = "select 1; alter table a add b int -- why\n; alter table c add d int;"

    assert split(hurried(script)) == [
        "select 1",
        "alter table a add b int -- why",
        "set local lock_timeout = '0.04s'",
        "alter table c add d int",
    ]
