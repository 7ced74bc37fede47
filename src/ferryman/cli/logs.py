"""Logs of a process, on stderr: JSON lines for collectors, plain lines for people.

The library logs through the standard library and names ids in `extra`; structlog renders them where it is installed.

What a task or a request says stays on the line of its record: JSON escapes by nature, and in plain lines control characters
are spelled out. A traceback has lines of its own, each set off from the edge, where only a record begins.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from textwrap import indent
from typing import Any, Literal

from ferryman.cli import spelling

Form = Literal["json", "text"]
REQUESTS = "ferryman.http.access"

# What every record has; whatever else is there was given as `extra`.
_USUAL = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def begin(form: Form, *, level: str = "info") -> None:
    """Log to stderr from now on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_formatter(form))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    logging.getLogger("ferryman").setLevel(logging.NOTSET)


def hush() -> None:
    """Keep the library's words from a person who asked something else; what is broken is still told."""
    logging.getLogger("ferryman").setLevel(logging.ERROR)


def _formatter(form: Form) -> logging.Formatter:
    plain = JsonLines() if form == "json" else TextLines()
    try:
        import structlog
    except ImportError:
        return plain
    renderer: Any = (
        structlog.processors.JSONRenderer()
        if form == "json"
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    spelled: list[Any] = [] if form == "json" else [_spelled]
    stamp = structlog.processors.TimeStamper(fmt="iso", utc=True)
    rendered = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[
            structlog.stdlib.add_log_level, structlog.stdlib.add_logger_name, structlog.stdlib.ExtraAdder(), stamp,
            structlog.processors.format_exc_info,
        ],
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *spelled, renderer],
    )  # fmt: skip
    return Lines(rendered, plain)


class Lines(logging.Formatter):
    """Lines of requests, which are very many, written by the short way, and all others as they are rendered."""

    def __init__(self, rendered: logging.Formatter, plain: logging.Formatter) -> None:
        super().__init__()
        self._rendered = rendered
        self._plain = plain

    def format(self, record: logging.LogRecord) -> str:
        """Write the record."""
        return (self._plain if record.name == REQUESTS else self._rendered).format(record)


def _on_its_line(value: object) -> str:
    """Return a text that ends no line and steers no terminal."""
    return spelling.clean(str(value)).replace("\n", "\\n")


def _set_off(traceback: str) -> str:
    """Return a traceback no line of which can be taken for a record."""
    return indent(spelling.clean(traceback), "  ", lambda _line: True)


def _spelled(_logger: object, _method: str, told: dict[str, Any]) -> dict[str, Any]:
    """Spell out what structlog is to write as text; what is no text it writes by its repr."""
    for name, value in told.items():
        if name == "exception":
            told[name] = _set_off(value)
        elif isinstance(value, str) or not repr(value).isprintable():
            told[name] = _on_its_line(value)
    return told


def _extra(record: logging.LogRecord) -> dict[str, Any]:
    return {name: value for name, value in vars(record).items() if name not in _USUAL}


def _stamp(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat().replace("+00:00", "Z")


class JsonLines(logging.Formatter):
    """One JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        """Write the record with its extras."""
        told = {
            "timestamp": _stamp(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
            **_extra(record),
        }
        if record.exc_info:
            told["exception"] = self.formatException(record.exc_info)
        return json.dumps(told, ensure_ascii=False, default=str)


class TextLines(logging.Formatter):
    """One line per record; its extras at the end, and below it a traceback if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        """Write the record with its extras."""
        extra = "".join(f" {name}={_on_its_line(value)}" for name, value in _extra(record).items())
        said = _on_its_line(record.getMessage())
        line = f"{_stamp(record)} [{record.levelname.lower():9}] {said} [{record.name}]{extra}"
        return f"{line}\n{_set_off(self.formatException(record.exc_info))}" if record.exc_info else line
