"""Plain lines of the log: whatever a task says, it begins no record and steers no terminal (R7)."""

import logging
import sys

import pytest

from ferryman.cli import logs

# An end of a line in each spelling that somebody reads as one, and what clears a screen, in seven bits and in eight.
FORGED = "gone\n2026-01-01T00:00:00Z [info     ] all is well [ferryman]\r\x85\u2028\x1b[2J\x9b2J\x07\x7f"
FORMS = {"plain": logs.TextLines(), "structlog": logs._formatter("text")}


def record(message: str, *args: object, failed: bool = False, **extra: object) -> logging.LogRecord:
    info = None
    if failed:
        try:
            raise ValueError(FORGED)
        except ValueError:
            info = sys.exc_info()
    made = logging.LogRecord("ferryman.tasks", logging.ERROR, __file__, 1, message, args, info)
    vars(made).update(extra)
    return made


@pytest.mark.contract("R7")
@pytest.mark.parametrize("form", FORMS)
def test_no_word_of_a_task_begins_a_line_of_the_log_or_steers_a_terminal(form: str) -> None:
    [line] = FORMS[form].format(record("a task failed: %s", FORGED, reason=FORGED, refs=[FORGED])).splitlines()

    assert line.isprintable()
    assert line.count("all is well") == 3
    assert "gone\\n2026" in line


@pytest.mark.contract("R7")
@pytest.mark.parametrize("form", FORMS)
def test_no_line_of_a_traceback_can_be_taken_for_a_record(form: str) -> None:
    first, *traceback = FORMS[form].format(record("a task failed", failed=True)).splitlines()

    assert "a task failed" in first
    assert "all is well" not in first
    assert sum("all is well" in line for line in traceback) == 1
    assert all(line.startswith("  ") and line.isprintable() for line in traceback)


@pytest.mark.contract("K19")
@pytest.mark.parametrize("form", FORMS)
def test_plain_words_are_written_as_they_are(form: str) -> None:
    line = FORMS[form].format(record("die Fähre %s ist da ⛴", "Elbe", task="t1", count=3))

    assert "die Fähre Elbe ist da ⛴" in line
    assert "task=t1" in line
    assert "count=3" in line
