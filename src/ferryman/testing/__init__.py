"""What tests of this library, and of programs that use it, stand on: databases in milliseconds, moved time, crashes.

With pytest the fixtures of `ferryman.testing.plugin` are there by themselves. Nothing is imported before it is used: a run of
pytest that has nothing to do with Ferryman does not pay for it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ferryman.testing.clock import travel
    from ferryman.testing.cluster import Cluster
    from ferryman.testing.crashes import Crashes
    from ferryman.testing.doorbells import Doubled, Late, Lossy
    from ferryman.testing.nats import NatsServer
    from ferryman.testing.plants import plant, state_of
    from ferryman.testing.trial import NobodyDied, Trial, Trials

__all__ = [
    "Cluster",
    "Crashes",
    "Doubled",
    "Late",
    "Lossy",
    "NatsServer",
    "NobodyDied",
    "Trial",
    "Trials",
    "plant",
    "state_of",
    "travel",
]

_HOMES = {
    "Cluster": "cluster",
    "Crashes": "crashes",
    "Doubled": "doorbells",
    "Late": "doorbells",
    "Lossy": "doorbells",
    "NatsServer": "nats",
    "NobodyDied": "trial",
    "Trial": "trial",
    "Trials": "trial",
    "plant": "plants",
    "state_of": "plants",
    "travel": "clock",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'ferryman.testing' has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f"ferryman.testing.{home}"), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
