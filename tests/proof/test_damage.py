"""A page that PostgreSQL cannot read, at the front of the line: it is told, nothing ends by it, and mended it is passed."""

import asyncio
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ferryman.app import doctor
from ferryman.kernel import errors
from tests.crash import cargo, judge
from tests.crash.conftest import Launch
from tests.crash.sea import Sea
from tests.crash.yard import until
from tests.proof.conftest import Tell

WORKERS = 2
TASKS = 40
PAGE = 8192
TOLD = "nothing gets past a damaged page"


@pytest.fixture
async def sea(ground: Path) -> AsyncIterator[Sea]:
    made = Sea(ground / "sea")
    try:
        yield await made.begin()
    finally:
        made.end()


async def rot(sea: Sea, relation: str, page: int) -> tuple[Path, bytes]:
    """Turn a bit of a page over while the server is down; return its file and what stood there."""
    [row] = await judge.read(
        sea.url, "select current_setting('data_directory') as place, pg_relation_filepath($1) as path", relation
    )
    file = Path(row["place"]) / row["path"]
    await sea.kill(signal.SIGINT)
    whole = file.read_bytes()[page * PAGE : (page + 1) * PAGE]
    assert len(whole) == PAGE
    put(file, page, whole[:-1] + bytes([whole[-1] ^ 1]))
    await asyncio.to_thread(sea.start)
    return file, whole


def put(file: Path, page: int, content: bytes) -> None:
    with file.open("r+b") as opened:
        opened.seek(page * PAGE)
        opened.write(content)


async def mend_table(sea: Sea, file: Path, whole: bytes) -> None:
    """Put the page back as a backup has it: nobody could have changed it since."""
    await sea.kill(signal.SIGINT)
    put(file, 0, whole)
    await asyncio.to_thread(sea.start)


@pytest.mark.contract("K20", "K24")
@pytest.mark.parametrize("part", ["table", "index"])
async def test_a_page_that_cannot_be_read_is_told_and_costs_nothing_but_time(
    part: str, sea: Sea, ship: Launch, tell: Tell
) -> None:
    made = await cargo.load(sea.url, TASKS)
    # The second page of an index is its first leaf: the one before says only where the root is.
    relation, page = ("ferryman.tasks", 0) if part == "table" else ("ferryman.tasks_ready", 1)
    file, whole = await rot(sea, relation, page)
    workers = [ship(sea.url).start() for _ in range(WORKERS)]
    await until(lambda: all(TOLD in each.output() for each in workers), "every worker to tell of it")

    async with cargo.client(sea.url) as app:
        if part == "table":
            with pytest.raises(errors.DatabaseDamaged):
                await app.tasks.get(made[0])
            report = await doctor.examine(app.settings)
            assert any("invalid page" in each.says and "backup" in each.advice for each in report.findings), report
    assert [line for each in workers for line in each.lines("start")] == []  # who is behind it has to pass it

    if part == "table":
        await mend_table(sea, file, whole)
    else:
        await judge.read(sea.url, "reindex index ferryman.tasks_ready")
    await judge.all_ended(sea.url)

    lines = [line for each in workers for line in each.lines()]
    await judge.judge(sea.url, made, lines)
    assert await cargo.broken(sea.url) == []
    for each in workers:
        assert each.alive()
        assert "Traceback" not in each.output(), each.output()
    tell(
        f"a page of the {part} that cannot be read, under {WORKERS} workers: {len(made)} tasks ended once when it was mended"
    )
