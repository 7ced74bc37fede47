from __future__ import annotations

from bench import profile


def test_a_sample_belongs_to_the_innermost_frame_that_somebody_claims() -> None:
    found = profile.shares(
        [
            "run (/asyncio/events.py:1);settle (/ferryman/tasks/store/moves.py:2);fetch (/asyncpg/connection.py:3) 4",
            "run (/asyncio/events.py:1);settle (/ferryman/tasks/store/moves.py:2);join (<frozen posixpath>:3) 2",
            "start (/home/somebody.py:1) 1",
        ]
    )

    assert found == {"driver": 4, "tasks": 2, profile.REST: 1}


def test_the_table_shows_what_has_a_share_of_something() -> None:
    told = profile.table({"drain": profile.shares(["fetch (/asyncpg/a.py:1) 99", "f (/ferryman/tasks/b.py:1) 1"])})

    assert [line.split() for line in told.splitlines()[2:]] == [
        ["|", "driver", "|", "99", "%", "|"],
        ["|", "tasks", "|", "1", "%", "|"],
    ]
