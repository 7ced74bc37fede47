"""The edge of the program: whatever a command ends with becomes an exit code and, at most, one sentence."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from cyclopts import CycloptsError

from ferryman.cli import exits, logs, program
from ferryman.cli.spelling import clean
from ferryman.kernel import errors

# Who types a command can look at the address; a program can only try again.
UNREACHED = (
    "Is it running, and is this its address? `ferryman config` shows the one in force."
    " A repeat with an idempotency key is safe."
)


def run(arguments: Sequence[str]) -> int:
    """Run a command; never a traceback for what can be expected."""
    _be_printable()
    as_json = "--json" in arguments
    try:
        return _run(arguments)
    except errors.FerrymanError as error:
        tell(error, as_json=as_json)
        return exits.of(error)
    except CycloptsError as error:
        tell(errors.UsageInvalid(_one_line(str(error))), as_json=as_json)
        return exits.USAGE
    except (KeyboardInterrupt, asyncio.CancelledError):
        return exits.INTERRUPTED
    except BrokenPipeError:
        # Whoever read us has seen enough. What is still in the buffer must not fail again at the very end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return exits.OK
    except Exception as error:
        from ferryman.kernel import pool  # loads the driver, which whoever asks for help does not need

        refused = pool.told(error)
        if refused is None:
            raise
        tell(refused, as_json=as_json)
        return exits.of(refused)


def _run(arguments: Sequence[str]) -> int:
    logs.hush()
    given = program.ordered(arguments)
    command, bound, _ = program.make(given).parse_args(given, print_error=False, exit_on_error=False)
    answer = command(*bound.args, **bound.kwargs)
    if inspect.iscoroutine(answer):
        answer = _run_async(answer)
    sys.stdout.flush()
    return answer if isinstance(answer, int) else exits.OK


def _run_async(work: Coroutine[Any, Any, Any]) -> Any:
    with asyncio.Runner(loop_factory=_loop()) as runner:
        # Somebody may have started us with SIGINT ignored (a shell's background job): then it stays so.
        if signal.getsignal(signal.SIGINT) is None:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        return runner.run(work)


def _loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def tell(error: errors.FerrymanError, *, as_json: bool) -> None:
    """Say on stderr what went wrong and what to do."""
    if type(error) is errors.DatabaseUnavailable:
        error.advice = UNREACHED
    if as_json:
        sys.stderr.write(json.dumps(error.as_dict(), ensure_ascii=False, default=str) + "\n")
    else:
        sys.stderr.write(clean(_one_line(f"{error.code}: {error}")) + "\n")


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _be_printable() -> None:
    """A character that the terminal cannot show is spelled out; it does not end the program."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
