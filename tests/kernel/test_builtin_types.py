"""PostgreSQL's own types are looked up once per process, those of users on each connection."""

from typing import Any
from uuid import uuid4

import asyncpg

from ferryman.kernel.pool import Line
from ferryman.testing import Cluster

ASKS = "select array_agg(n::int8) as numbers, $1::uuid[] as ids from generate_series(1, 3) as n"


async def sent(line: Line, query: str, *args: Any) -> tuple[list[str], Any]:
    """Return all statements that one fetch sent, and the row it found."""
    await line.open()
    queries: list[str] = []
    connection = line._connection
    assert connection is not None

    def note(record: asyncpg.connection.LoggedQuery) -> None:
        queries.append(record.query)

    with connection.query_logger(note):
        [row] = await line.fetch(query, *args)
    return queries, row


async def test_a_second_connection_asks_nothing_about_arrays_of_builtin_types(database_url: str) -> None:
    ids = [uuid4(), uuid4()]
    first, second = Line(database_url), Line(database_url)
    try:
        await sent(first, ASKS, ids)
        queries, row = await sent(second, ASKS, ids)
    finally:
        await first.close()
        await second.close()

    assert [query for query in queries if "pg_type" in query] == []
    assert (row["numbers"], row["ids"]) == ([1, 2, 3], ids)


async def test_a_type_of_a_user_is_looked_up_in_its_own_database(cluster: Cluster) -> None:
    found = []
    for fields, value in (("a int", "row(7)"), ("a text, b int", "row('x', 7)")):
        async with cluster.database() as url:
            line = Line(url)
            try:
                await line.fetch(f"create type place as ({fields})")
                _, row = await sent(line, f"select array[{value}::place] as places")
            finally:
                await line.close()
        found.append([tuple(each) for each in row["places"]])

    assert found == [[(7,)], [("x", 7)]]
