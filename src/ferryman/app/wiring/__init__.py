"""The only place where the domains meet: what is opened with an app, what runs in a worker, what the watchdog does.

The names below are imported at their first use: a module that declares handlers does not wait for all domains to be loaded.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ferryman.app.wiring.ground import EMBEDDED_FOLDER, address, make_doorbell, patiently
    from ferryman.app.wiring.opened import Opened, open_app
    from ferryman.app.wiring.watched import counting, invariants, rules
    from ferryman.app.wiring.working import declare_queues, work

__all__ = [
    "EMBEDDED_FOLDER",
    "Opened",
    "address",
    "counting",
    "declare_queues",
    "invariants",
    "make_doorbell",
    "open_app",
    "patiently",
    "rules",
    "work",
]

_HOMES = {
    "EMBEDDED_FOLDER": "ground",
    "Opened": "opened",
    "address": "ground",
    "counting": "watched",
    "declare_queues": "working",
    "invariants": "watched",
    "make_doorbell": "ground",
    "open_app": "opened",
    "patiently": "ground",
    "rules": "watched",
    "work": "working",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f"{__name__}.{home}"), name)
    return found
