"""The only place where the domains meet: what is opened with an app, what runs in a worker, what the watchdog does."""

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
