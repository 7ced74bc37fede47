"""`python -m ferryman.cli.leash …` is `ferryman …` that ends when its standard input closes.

For whoever starts processes of ours and must not leave them behind, however it dies itself.
"""

import os
import signal
import sys
import threading

from ferryman.cli import main


def _hold() -> None:
    # Not through sys.stdin: a thread that waits in there would be in the way at the end.
    while os.read(0, 1024):
        continue
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    threading.Thread(target=_hold, name="ferryman-leash", daemon=True).start()
    sys.exit(main())
