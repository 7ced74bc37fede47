"""K24: an address that leads to a standby: it is told as such, nobody loops, and after its promotion work goes on there."""

import asyncio
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from ferryman import Ferryman
from ferryman.app.embedded import Embedded
from ferryman.app.embedded.place import lodge
from ferryman.kernel import errors, migrate
from tests.crash import cargo, judge
from tests.crash.conftest import Launch
from tests.crash.yard import until
from tests.proof.conftest import Tell
from tests.surfaces import ferry


class Pair:
    """A primary, and a standby that follows it."""

    def __init__(self, folder: Path) -> None:
        self._primary = Embedded(folder / "primary", keep=False)
        self._folder = folder / "standby"
        self._standby: subprocess.Popen[bytes] | None = None
        self.primary = self.standby = ""

    def start(self) -> None:
        self.primary = self._primary.start()
        place = lodge(self._primary.directory)
        self._folder.mkdir()
        data, sockets = self._folder / "data", self._folder / "s"
        for made in (data, sockets):
            place.own(made)
        programs = self._primary.programs
        copied = subprocess.run(
            [programs / "pg_basebackup", "-D", data, "-R", "-c", "fast", "-h", place.sockets, "-U", "postgres"],
            capture_output=True, text=True, check=False, cwd=data, **place.identity(),
        )  # fmt: skip
        assert copied.returncode == 0, copied.stderr
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": str(sockets),
            "max_standby_streaming_delay": "1s",
            "max_connections": self._allowed(),  # a standby may not allow fewer than its primary
        }
        command = [str(programs / "postgres"), "-D", str(data)]
        for name, value in settings.items():
            command += ["-c", f"{name}={value}"]
        with (self._folder / "log").open("wb") as log:
            self._standby = subprocess.Popen(command, cwd=data, stdout=log, stderr=log, **place.identity())
        self.standby = f"postgresql://postgres@/postgres?host={sockets}"
        self._await(data)

    def _allowed(self) -> str:
        with psycopg.connect(self.primary) as connection:
            [allowed] = connection.execute("show max_connections").fetchone() or ("",)
        return str(allowed)

    def _await(self, data: Path) -> None:
        deadline = time.monotonic() + 30
        while "standby" not in _status(data) and "ready" not in _status(data):
            assert time.monotonic() < deadline, (self._folder / "log").read_text(encoding="utf-8")[-2000:]
            time.sleep(0.02)

    def stop(self) -> None:
        if self._standby is not None:
            self._standby.terminate()
            self._standby.wait()
            print((self._folder / "log").read_text(encoding="utf-8")[-3000:])  # shown if the test has failed
        self._primary.stop()


def _status(data: Path) -> str:
    """Return what the server says of itself in its file."""
    try:
        lines = (data / "postmaster.pid").read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return ""
    return lines[7].strip() if len(lines) > 7 else ""


@pytest.fixture
def pair(ground: Path) -> Iterator[Pair]:
    made = Pair(ground)
    try:
        yield made
    finally:
        made.stop()


async def followed(pair: Pair, count: int) -> None:
    """Wait until the standby has what the primary has."""
    query = "select count(*) as n from ferryman.tasks"
    async with asyncio.timeout(30):
        while (await judge.read(pair.standby, query))[0]["n"] < count:  # noqa: ASYNC110 - the sign is a row
            await asyncio.sleep(0.02)


@pytest.mark.contract("K24")
async def test_a_worker_at_a_standby_says_so_waits_and_goes_on_when_it_is_promoted(
    pair: Pair, ship: Launch, tell: Tell
) -> None:
    pair.start()
    await migrate.migrate(pair.primary)
    await migrate.migrate(pair.standby)  # nothing is missing, so nothing is written
    held = await cargo.load(pair.primary, 20)
    await followed(pair, 20)

    worker = ship(pair.standby).start()
    await until(lambda: "read-only" in worker.output(), "a word about the standby", also=worker.output)
    async with Ferryman(pair.standby) as app:
        app.declare("job")
        found = await app.tasks.get(held[0])
        with pytest.raises(errors.DatabaseUnavailable, match="read-only"):
            await app.tasks.create("job", {"key": "no"})
    doctor = await asyncio.to_thread(ferry.run, "doctor", "--quick", "--json", url=pair.standby)
    readings = {each["name"]: each for each in doctor.json["readings"]}
    assert found is not None
    assert worker.alive()
    assert doctor.code == 1
    assert (readings["standby"]["verdict"], "primary" in readings["standby"]["advice"]) == ("bad", True)
    words, began = len(worker.output().splitlines()), time.monotonic()
    await asyncio.sleep(2.0)  # it neither gives up nor loops: that shows only in time
    said = (len(worker.output().splitlines()) - words) / (time.monotonic() - began)
    assert worker.lines("start") == []

    promoted = time.monotonic()
    await judge.read(pair.standby, "select pg_promote()")
    await worker.seen("start")
    took = time.monotonic() - promoted
    tell(
        f"standby: {said:.1f} lines of log a second while a worker waits; its first start {took:.2f} s after pg_promote()"
    )
    await judge.all_ended(pair.standby)

    assert said < 20
    await judge.judge(pair.standby, held, worker.lines())
    assert len(worker.lines("born")) == 1
    assert await cargo.broken(pair.standby) == []
