"""`ferryman version`."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed
from typing import Annotated

from ferryman.cli.words import command, flag


def told() -> str:
    """Return the version that is installed."""
    try:
        return installed("ferryman")
    except PackageNotFoundError:
        return "0 (not installed)"


def version(*, json: Annotated[bool, flag("One JSON document on stdout.")] = False) -> None:
    """Show the version."""
    from ferryman.cli.screen import Screen

    screen = Screen(json=json)
    if json:
        screen.document({"ferryman": told(), "python": platform.python_version()})
    else:
        screen.print(f"ferryman {told()}, Python {platform.python_version()}")


program = command("version", version)
