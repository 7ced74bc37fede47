"""Finding the app that a person named as module:attribute."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from difflib import get_close_matches
from importlib import import_module
from traceback import extract_tb
from types import ModuleType
from typing import Any

from ferryman.app.ferryman import Ferryman
from ferryman.kernel import errors
from ferryman.kernel.settings import Settings

ATTRIBUTE = "app"


def load(named: str, overrides: Mapping[str, Any] | None = None) -> Ferryman:
    """Import the app; `overrides` are settings that the command line puts above the app's own."""
    module_name, _, attribute = named.partition(":")
    attribute = attribute or ATTRIBUTE
    found: Any = _import(module_name)
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise errors.AppNotLoaded(f"{module_name} has no {attribute}.{_hint(found, part)}")
        found = getattr(found, part)
    if not isinstance(found, Ferryman):
        raise errors.AppNotLoaded(f"{module_name}:{attribute} is a {type(found).__name__}, not a Ferryman.")
    if overrides:
        found.settings = overridden(found.settings, overrides)
    return found


def overridden(settings: Settings, given: Mapping[str, Any]) -> Settings:
    """Return an app's settings with some from the command line above them."""
    checked = Settings.load(given, environ={})
    origins = {**settings.origins, **checked.origins}
    return replace(settings, **{name: getattr(checked, name) for name in given}, origins=origins)


def _import(name: str) -> ModuleType:
    # Like `python -m`: what lies in the working directory can be imported.
    if os.getcwd() not in sys.path and "" not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise errors.AppNotLoaded(f"There is no module {error.name!r} here ({os.getcwd()}).") from error
        raise _broken(name, error) from error
    except (Exception, SystemExit) as error:
        raise _broken(name, error) from error


def _broken(name: str, error: BaseException) -> errors.AppNotLoaded:
    broken = errors.AppNotLoaded(f"{name} cannot be imported: {_last(error)}.")
    broken.advice = f"`python -c 'import {name}'` shows the whole story."
    return broken


def _last(error: BaseException) -> str:
    """Name the error and the line it came from."""
    frames = [frame for frame in extract_tb(error.__traceback__) if "importlib" not in frame.filename]
    where = f" ({os.path.basename(frames[-1].filename)}, line {frames[-1].lineno})" if frames else ""
    if isinstance(error, SyntaxError) and error.filename:
        where = f" ({os.path.basename(error.filename)}, line {error.lineno})"
    said = error.msg if isinstance(error, SyntaxError) else str(error)
    return f"{type(error).__name__}: {said}".rstrip(": ") + where


def _hint(found: Any, part: str) -> str:
    apps = (
        [name for name, value in vars(found).items() if isinstance(value, Ferryman)]
        if hasattr(found, "__dict__")
        else []
    )
    near = apps[:1] or get_close_matches(part, dir(found), n=1)
    return f" Did you mean {near[0]}?" if near else ""
