"""The number that drawn inputs are drawn by: the same in every run, or INPUT_SEED; at night it is the day's (.ci/nightly)."""

import os
import random

SEED = int(os.environ.get("INPUT_SEED", "20260101"))


def told() -> int:
    """Return the seed, and say it where a test that fails shows it."""
    print(f"drawn by INPUT_SEED={SEED}")
    return SEED


def dice() -> random.Random:
    """Return what draws by it."""
    return random.Random(told())
