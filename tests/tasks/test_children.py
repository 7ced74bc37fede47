"""Child processes end with their attempt, with what they started, and with their worker (T6, T16)."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ferryman.kernel import errors
from ferryman.tasks.work import child
from tests.patience import PATIENCE_SECONDS
from tests.tasks import children
from tests.tasks.conftest import MakeApp
from tests.tasks.remains import alive, gone, until, written


def ends() -> set[str]:
    """Return the pipes and sockets that this process holds, by name: some of before may be closed at any moment."""
    found = set()
    for file in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # it was that of the look itself
            found.add(str(file.readlink()))
    return {each for each in found if each.startswith(("pipe:", "socket:"))}


@pytest.mark.contract("T6", "T16")
async def test_a_child_that_leaves_a_fork_behind_has_answered_and_the_fork_is_killed(
    make_app: MakeApp, tmp_path: Path
) -> None:
    app = await make_app((children.fork, {"process": True}))
    file = tmp_path / "pid"
    handle = await app.tasks.create(children.fork, file=str(file), timeout=60, max_retries=0)

    async with app.worker():
        assert await handle.result(timeout=PATIENCE_SECONDS) == "done"

    await until(lambda: gone(file))


@pytest.mark.contract("T16")
async def test_only_the_child_answers_not_what_it_forked() -> None:
    assert await child.run(children.fork_twice, "{}") == 1


@pytest.mark.contract("T6", "T16")
async def test_a_child_that_dies_beside_its_fork_is_not_waited_for(tmp_path: Path) -> None:
    file = tmp_path / "pid"

    async with asyncio.timeout(PATIENCE_SECONDS):
        with pytest.raises(child.ChildFailed, match="left with exit code 9 without an answer"):
            await child.run(children.fork_and_vanish, f'{{"file": "{file}"}}')

    await until(lambda: gone(file))


@pytest.mark.contract("T16")
async def test_a_child_says_goodbye_after_its_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "LEAVING", 60.0)
    file = tmp_path / "word"

    assert await child.run(children.say_goodbye, f'{{"file": "{file}"}}') == "done"

    assert file.read_text(encoding="utf-8") == "goodbye"


@pytest.mark.contract("T6", "T16")
async def test_a_child_that_never_leaves_after_its_answer_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child, "LEAVING", 0.2)
    file = tmp_path / "pid"

    async with asyncio.timeout(PATIENCE_SECONDS):
        assert await child.run(children.linger, f'{{"file": "{file}"}}') == "done"

    assert gone(file)


WORKER = """
import asyncio, sys
from ferryman.tasks.work import child
from tests.tasks import children

asyncio.run(child.run(children.hang, '{"file": "' + sys.argv[1] + '"}'))
"""


@pytest.mark.contract("T6", "T16")
async def test_a_child_and_what_it_started_end_with_a_worker_that_is_killed(tmp_path: Path) -> None:
    file = tmp_path / "pids"
    path = os.pathsep.join(part for part in sys.path if part)
    worker = subprocess.Popen([sys.executable, "-c", WORKER, str(file)], env={**os.environ, "PYTHONPATH": path})
    await until(lambda: len(written(file)) == 2)
    assert all(alive(pid) for pid in written(file))

    worker.send_signal(signal.SIGKILL)
    worker.wait()

    await until(lambda: gone(file))


@pytest.mark.contract("T6")
async def test_a_cancel_just_after_the_start_leaves_neither_a_pipe_nor_a_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started: list[asyncio.subprocess.Process] = []
    start = asyncio.create_subprocess_exec

    async def cancelled(*args: Any, **options: Any) -> asyncio.subprocess.Process:
        started.append(await start(*args, **options))
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        return started[-1]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", cancelled)
    before = ends()

    with pytest.raises(asyncio.CancelledError):
        await asyncio.create_task(child.run(children.double, '{"n": 1}'))

    await until(lambda: ends() <= before)  # transports close in a turn of the loop to come
    assert started[0].returncode == -signal.SIGKILL


@pytest.mark.contract("T16", "K13")
@pytest.mark.parametrize("function", [children.unfit, children.large], ids=lambda function: function.__name__)
async def test_a_result_that_cannot_be_stored_has_the_same_code_from_a_child(make_app: MakeApp, function: Any) -> None:
    app = await make_app((function, {"process": True}))
    handle = await app.tasks.create(function)

    async with app.worker():
        with pytest.raises(errors.TaskInvalidResult):
            await handle.result(timeout=PATIENCE_SECONDS)

    assert (await handle.refresh()).attempt == 1
