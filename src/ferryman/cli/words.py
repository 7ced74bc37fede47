"""How commands and options are described in --help."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cyclopts import App, Parameter


def command(name: str, function: Callable[..., Any]) -> App:
    """Make a function a command; its docstring is what --help says."""
    made = App(name=name, help_format="plaintext")
    made.default(function)
    return made


def says(text: str) -> Parameter:
    """Describe an option that takes a value."""
    return Parameter(help=text)


def flag(text: str) -> Parameter:
    """Describe an option that is there or not; there is no --no- form."""
    return Parameter(help=text, negative="", show_default=False)
