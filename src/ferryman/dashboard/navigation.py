"""Where one can go: the places of the side bar, each with its key after `g`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple
from urllib.parse import quote


class Place(NamedTuple):
    """One place: its name, its address, the key that leads there, and whether only operators may look."""

    name: str
    path: str
    key: str
    operator: bool = False


class Group(NamedTuple):
    """Places under one heading."""

    name: str
    places: Sequence[Place]


NAVIGATION: Sequence[Group] = (
    Group("", [Place("Overview", "/", "o")]),
    Group(
        "Work",
        [
            Place("Tasks", "/tasks", "t"),
            Place("Schedules", "/schedules", "s"),
            Place("Queues", "/queues", "q"),
        ],
    ),
    Group(
        "Agents",
        [
            Place("Agents", "/agents", "a"),
            Place("Batches", "/batches", "b"),
            Place("Commands", "/commands", "c"),
        ],
    ),
    Group(
        "Data",
        [
            Place("Ingestion", "/ingest", "i"),
            Place("Webhooks", "/webhooks", "h"),
        ],
    ),
    Group(
        "Operations",
        [
            Place("Workers", "/workers", "w", operator=True),
            Place("Watchdog", "/watchdog", "d", operator=True),
            Place("Tenants", "/tenants", "n", operator=True),
            Place("Log", "/log", "l"),
            Place("API", "/docs", "p"),
        ],
    ),
)

# Where the page of an object is, by the kind that explain and the log call it.
OBJECTS: Mapping[str, str] = {
    "task": "/tasks",
    "schedule": "/schedules",
    "turn": "/turns",
    "agent.state": "/turns",
    "agent.task": "/turns",
    "batch": "/batches",
    "command": "/commands",
    "ingest_plan": "/ingest/plans",
    "ingest_slice": "/ingest/tasks",
    "ingest_task": "/ingest/tasks",
    "webhook": "/webhooks",
}


def page_of(kind: str, id: str) -> str | None:
    """Return the address of an object's page; None if its kind has none."""
    under = OBJECTS.get(kind)
    return None if under is None else f"{under}/{quote(id, safe='')}"
