"""The only place where the domains meet: what is opened with an app, what runs in a worker, what the watchdog does.

The names below are imported at their first use: a module that declares handlers does not wait for all domains to be loaded.
"""

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


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ferryman.app.wiring import ground, opened, watched, working

    for home in (ground, opened, watched, working):
        globals().update({each: found for each, found in vars(home).items() if each in __all__})
    return globals()[name]
