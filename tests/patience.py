"""How long a test waits for something that must happen.

The bound only ends a test that hangs, with a sentence about what it waited for. No verdict depends on it: it is far longer than
anything takes on a busy machine. pytest ends a test after five times as long (pyproject.toml).
"""

PATIENCE_SECONDS = 120.0
