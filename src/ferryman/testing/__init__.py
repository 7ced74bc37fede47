"""What tests of this library, and of programs that use it, stand on: databases in milliseconds, and time that can be moved."""

from ferryman.testing.clock import travel
from ferryman.testing.cluster import Cluster
from ferryman.testing.doorbells import Doubled, Late, Lossy
from ferryman.testing.nats import NatsServer
from ferryman.testing.plants import plant, state_of

__all__ = ["Cluster", "Doubled", "Late", "Lossy", "NatsServer", "plant", "state_of", "travel"]
