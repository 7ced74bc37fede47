"""The embedded PostgreSQL, for real: processes are started and killed, permissions are looked at afterwards."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from ferryman.app import embedded
from ferryman.app.embedded import Embedded, keeper, place
from ferryman.app.embedded.locks import Lock
from ferryman.kernel import errors
from ferryman.kernel.pool import Line
from tests.patience import PATIENCE_SECONDS

STARTER = """
import os, sys
from pathlib import Path
from ferryman.app.embedded import Embedded, place
if "LODGINGS" in os.environ:
    place.ROOT_LODGINGS = (Path(os.environ["LODGINGS"]),)
server = Embedded(sys.argv[1], durable=False, keep="remove" not in sys.argv)
print(server.start(), flush=True)
sys.stdin.read()
server.stop()
"""
FORKER = """
import os, sys
from ferryman.app.embedded import Embedded
server = Embedded(sys.argv[1], durable=False)
server.start()
if not os.fork():
    print("child", flush=True)
    sys.stdin.read()
    server.stop()
    print("ended", flush=True)
else:
    os.wait()
"""

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def directory() -> Iterator[Path]:
    """A directory that every user may reach, so that the data stays in it also when the tests run as root."""
    made = Path(tempfile.mkdtemp(prefix="ferryman-", dir="/tmp")).resolve()
    made.chmod(0o755)
    home = made / "pg"
    yield home
    if home.exists():
        Lock(home / keeper.KEEPER).wait_free(PATIENCE_SECONDS)
    shutil.rmtree(made)


@pytest.fixture
def start() -> Iterator[Start]:
    """Start other processes that use an embedded server, and end those that are left."""
    started: list[subprocess.Popen[str]] = []

    def starter(directory: Path, *words: str, program: str = STARTER, **environment: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", program, str(directory), *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))} | environment,
        )
        started.append(process)
        return process

    yield starter
    for process in started:
        with process:
            process.kill()


def url_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def server_of(home: Path) -> psutil.Process:
    return psutil.Process(int((home / "data" / "postmaster.pid").read_text(encoding="utf-8").split()[0]))


async def ask(url: str, question: str) -> Any:
    line = Line(url)
    try:
        return (await line.fetch(question))[0][0]
    finally:
        await line.close()


def modes(path: Path) -> dict[Path, int]:
    return {step: step.stat().st_mode for step in (path, *path.parents)}


async def test_it_is_a_durable_postgresql_18_without_a_port_and_without_rights(directory: Path) -> None:
    with Embedded(directory) as server:
        assert str(await ask(server.url, "show server_version")).startswith("18")
        assert await ask(server.url, "select setting from pg_settings where name = 'fsync'") == "on"
        assert await ask(server.url, "show listen_addresses") == ""
        assert await ask(server.url, "show max_connections") == "200", "room for some ten workers"
        assert server_of(directory).uids().effective != 0


async def test_a_server_has_the_settings_that_it_was_given(directory: Path) -> None:
    with Embedded(directory, durable=False, keep=False, settings={"max_connections": "33"}) as server:
        assert await ask(server.url, "show max_connections") == "33"


async def test_what_was_written_is_there_after_a_restart(directory: Path) -> None:
    with Embedded(directory) as server:
        await ask(server.url, "with made as (select lo_from_bytea(4711, 'ferry')) select count(*) from made")

    with Embedded(directory) as server:
        assert await ask(server.url, "select lo_get(4711)") == b"ferry"


def test_a_killed_starter_takes_the_server_with_it(directory: Path, start: Start) -> None:
    starter = start(directory)
    url_of(starter)
    server = server_of(directory)

    starter.kill()

    server.wait(timeout=PATIENCE_SECONDS)


def test_a_killed_starter_leaves_nothing_that_was_not_to_be_kept(directory: Path, start: Start) -> None:
    starter = start(directory, "remove")
    url_of(starter)
    parent = server_of(directory).parent()
    assert parent is not None

    starter.kill()

    parent.wait(timeout=PATIENCE_SECONDS)
    assert not directory.exists()


def test_a_forked_child_does_not_keep_the_server(directory: Path, start: Start) -> None:
    parent = start(directory, program=FORKER)
    assert url_of(parent) == "child"
    server = server_of(directory)

    parent.kill()

    server.wait(timeout=PATIENCE_SECONDS)
    assert parent.communicate()[0] == "ended\n"


async def test_two_that_start_at_once_share_one_server_and_the_last_one_out_stops_it(
    directory: Path, start: Start
) -> None:
    one, other = start(directory), start(directory)
    url = url_of(one)
    assert url_of(other) == url
    server = server_of(directory)

    one.kill()
    one.wait()
    assert await ask(url, "select 1") == 1
    other.kill()

    server.wait(timeout=PATIENCE_SECONDS)


async def test_a_server_whose_keeper_was_killed_gets_a_new_one(directory: Path, start: Start) -> None:
    first = start(directory)
    url_of(first)
    server = server_of(directory)
    parent = server.parent()
    assert parent is not None
    parent.kill()
    parent.wait(timeout=PATIENCE_SECONDS)

    with Embedded(directory, durable=False) as second:
        assert server_of(directory) == server
        first.kill()
        first.wait()
        assert await ask(second.url, "select 1") == 1

    server.wait(timeout=PATIENCE_SECONDS)


async def test_a_killed_server_is_started_again(directory: Path, start: Start) -> None:
    url_of(start(directory))
    killed = server_of(directory)
    killed.kill()
    killed.wait(timeout=PATIENCE_SECONDS)

    with Embedded(directory, durable=False) as server:
        assert await ask(server.url, "select 1") == 1
        assert server_of(directory) != killed


def test_who_dies_in_the_data_is_waited_for_although_it_has_no_program_any_more(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, proc = place.lodge(directory), tmp_path / "proc"
    for number, program in (("11", "/bin/postgres"), ("12", None), ("13", "/bin/bash")):
        (proc / number).mkdir(parents=True)
        (proc / number / "cwd").symlink_to(home.data)
        if program is not None:
            (proc / number / "exe").symlink_to(program)
    (proc / "14").mkdir()  # gone, but for its number

    monkeypatch.setattr(place, "_PROC", proc)

    assert sorted(home.inhabitants() or ()) == [11, 12]


async def test_a_stale_pid_file_that_names_a_stranger_does_not_matter(directory: Path) -> None:
    Embedded(directory, durable=False).__enter__().stop()
    (directory / "data" / "postmaster.pid").write_text(
        f"{os.getppid()}\n{directory / 'data'}\n1\n5432\n", encoding="utf-8"
    )
    (directory / "sockets" / place.SOCKET).write_text("", encoding="utf-8")

    with Embedded(directory, durable=False) as server:
        assert await ask(server.url, "select 1") == 1


async def test_a_crash_while_the_data_was_made_does_not_matter(directory: Path) -> None:
    (directory / "data.new" / "base").mkdir(parents=True)
    directory.chmod(0o711)

    with Embedded(directory, durable=False) as server:
        assert await ask(server.url, "show fsync") == "off"


async def test_two_directories_never_meet(directory: Path) -> None:
    with Embedded(directory, durable=False) as one, Embedded(directory.with_name("other"), durable=False) as other:
        who = "select system_identifier from pg_control_system()"
        assert await ask(one.url, who) != await ask(other.url, who)


async def test_a_private_directory_stays_private_and_gets_its_own_data(tmp_path: Path) -> None:
    private = tmp_path / "home"
    private.mkdir(mode=0o700)
    before = modes(private)

    with (
        Embedded(private / "one" / "pg", durable=False, keep=False) as one,
        Embedded(private / "two" / "pg", durable=False, keep=False) as two,
    ):
        assert await ask(one.url, "show data_directory") != await ask(two.url, "show data_directory")

    assert modes(private) == before


async def test_programs_in_a_private_directory_run_and_it_stays_private(
    tmp_path: Path, directory: Path, start: Start
) -> None:
    wheel = place._find_wheel()
    private = tmp_path / "site"
    shutil.copytree(wheel, private / wheel.name, symlinks=True, ignore=shutil.ignore_patterns("include", "pginstall"))
    shutil.copytree(wheel.with_name(f"{wheel.name}.libs"), private / f"{wheel.name}.libs", symlinks=True)
    private.chmod(0o700)
    before = modes(private / wheel.name / place.INSTALL / "bin")

    found_first = os.pathsep.join([str(private), *filter(None, sys.path)])
    starter = start(directory, PYTHONPATH=found_first, LODGINGS=str(directory.with_name("lodgings")))

    assert await ask(url_of(starter), "select 1") == 1
    assert modes(private / wheel.name / place.INSTALL / "bin") == before


async def test_a_path_too_long_for_a_socket_is_no_hindrance(directory: Path) -> None:
    deep = directory / ("d" * 60) / ("e" * 60)

    with Embedded(deep, durable=False, keep=False) as server:
        assert await ask(server.url, "select 1") == 1


def test_without_the_extra_the_error_says_what_to_install(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place, "WHEEL", "no_such_wheel")

    with pytest.raises(errors.EmbeddedUnavailable, match=r"pip install 'ferryman\[embedded\]'"):
        Embedded(directory).start()


def test_a_server_that_cannot_start_says_why(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(embedded._CARELESS, "shared_buffers", "no size")

    with pytest.raises(errors.EmbeddedUnavailable, match="shared_buffers"):
        Embedded(directory, durable=False).start()


def test_interrupting_the_terminal_does_not_stop_the_server(directory: Path, start: Start) -> None:
    starter = start(directory)
    url_of(starter)
    server = server_of(directory)
    parent = server.parent()
    assert parent is not None

    # The keeper and the server stand in sessions of their own: Ctrl-C goes to the starter's group alone.
    assert os.getsid(parent.pid) != os.getsid(starter.pid)
    starter.send_signal(signal.SIGINT)

    server.wait(timeout=PATIENCE_SECONDS)
