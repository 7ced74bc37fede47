"""`python -m ferryman.cli` is `ferryman`."""

import sys

from ferryman.cli import main

sys.exit(main())
