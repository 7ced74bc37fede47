"""One function per statement on the tables of tasks, by subject."""

from ferryman.tasks.store.births import alike, create, create_alike, existing
from ferryman.tasks.store.moves import (
    callbacks,
    cancel,
    ended,
    expired,
    lanes,
    lapsed,
    promote,
    reclaim,
    renew,
    settle,
    turn,
)
from ferryman.tasks.store.presence import beat, leave, workers
from ferryman.tasks.store.reads import depth, explain, finished, get, list_page, named, orphans, queues, reasons, record
from ferryman.tasks.store.retention import forget, walk
from ferryman.tasks.store.words import Line, Report, append_log, progress, read_log, report

__all__ = [
    "Line",
    "Report",
    "alike",
    "append_log",
    "beat",
    "callbacks",
    "cancel",
    "create",
    "create_alike",
    "depth",
    "ended",
    "existing",
    "expired",
    "explain",
    "finished",
    "forget",
    "get",
    "lanes",
    "lapsed",
    "leave",
    "list_page",
    "named",
    "orphans",
    "progress",
    "promote",
    "queues",
    "read_log",
    "reasons",
    "reclaim",
    "record",
    "renew",
    "report",
    "settle",
    "turn",
    "walk",
    "workers",
]
