"""The keys by which a task meets others: given with the create, or made of its payload by what its handler declares (T17)."""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from ferryman.kernel import errors, ids
from ferryman.tasks.model import Draft, Flow, NewTask

Maker = Callable[[Any], object] | str

FIELDS = ("limit_key", "singleton", "debounce", "debounce_key")
QUIET_MAX = timedelta(days=1)
# A field of the payload, or of an object in it: customer, customer[id].
_FIELD = re.compile(r"[A-Za-z_]\w*(?:\[[^\[\]]+\])*")


class Keys(NamedTuple):
    """What a handler declares: how its tasks' keys are made of their payloads. A singleton of True is one for the name."""

    limit_key: Maker | None = None
    singleton: Maker | bool | None = None
    debounce: timedelta | float | None = None
    debounce_key: Maker | None = None


def declared(**options: Any) -> Keys | None:
    """Check what a handler declares; None when it declares none of it."""
    if all(options.get(field) is None for field in FIELDS):
        return None
    for field in ("limit_key", "singleton", "debounce_key"):
        _check(options.get(field), field)
    _quiet(options.get("debounce"))
    if options.get("debounce_key") is not None and options.get("debounce") is None:
        raise _refusal("debounce_key", "it together with debounce, got it alone")
    return Keys(**{field: options.get(field) for field in FIELDS})


def _check(maker: object, field: str) -> None:
    if maker is None or callable(maker) or (field == "singleton" and isinstance(maker, bool)):
        return
    if not isinstance(maker, str):
        raise _refusal(
            field, f"a text such as 'customer-{{customer}}', or a function of the payload, got {ascii(maker)[:60]}"
        )
    try:
        parts = list(string.Formatter().parse(maker))
    except ValueError as error:
        raise _refusal(field, f"a text such as 'customer-{{customer}}', got {maker!r}: {error}") from None
    if any(name is not None and not _FIELD.fullmatch(name) for _, name, _, _ in parts):
        raise _refusal(field, f"the name of a payload's field in each pair of braces, got {maker!r}")


def flow(keys: Keys | None, given: Mapping[str, Any], payload: Any, *, name: str) -> Flow | None:
    """Return the keys of a task: those given with the create, else those its handler declares; None without any.

    What is given is the key itself; what is declared is made of the payload.
    """
    known = keys or Keys()
    limit = _key(given.get("limit_key"), known.limit_key, payload, "limit_key")
    single = given.get("singleton", known.singleton)
    if isinstance(single, bool):
        singleton = name if single else None
    else:
        singleton = _key(given.get("singleton"), known.singleton, payload, "singleton")  # type: ignore[arg-type]
    quiet = _quiet(given.get("debounce", known.debounce))
    debounce = None
    if quiet is not None:
        debounce = _key(given.get("debounce_key"), known.debounce_key, payload, "debounce_key") or name
    elif given.get("debounce_key") is not None:
        raise _refusal("debounce_key", "it together with debounce, got it alone")
    if limit is None and singleton is None and debounce is None:
        return None
    return Flow(limit, singleton, debounce, quiet)


def keyed(task: NewTask, keys: Keys | None, given: Mapping[str, Any], payload: Any) -> NewTask:
    """Give a task that is to be born its keys, by the payload that it is made of."""
    made = flow(keys, given, payload, name=task.name)
    return task if made is None else task._replace(**made._asdict())


def _key(given: object, maker: Maker | None, payload: Any, field: str) -> str | None:
    if given is not None:
        return ids.check_key(given, field)
    if maker is None:
        return None
    try:
        made = maker(payload) if callable(maker) else maker.format_map(_Fields(payload))
    except Exception as error:
        raise _refusal(field, f"a payload that a key can be made of ({errors.said(error)})") from error
    return None if made is None else ids.check_key(made if isinstance(made, str) else str(made), field)


class _Fields(dict[str, Any]):
    """A payload's fields; one that is missing is named."""

    def __init__(self, payload: Any) -> None:
        super().__init__(payload if isinstance(payload, Mapping) else {})

    def __missing__(self, key: str) -> Any:
        raise KeyError(key)


def _quiet(given: object) -> timedelta | None:
    if given is None:
        return None
    try:
        quiet = given if isinstance(given, timedelta) else timedelta(seconds=_seconds(given))
    except (OverflowError, ValueError):
        quiet = timedelta(0)
    if not timedelta(0) < quiet <= QUIET_MAX:
        raise _refusal("debounce", f"more than 0 s and at most a day, got {ascii(given)[:60]}")
    return quiet


def _seconds(given: object) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float):
        return 0.0
    return given


def _refusal(field: str, expected: str) -> errors.TaskInvalidRequest:
    return errors.TaskInvalidRequest(f"{field}: expected {expected}.", field=field)


def flowing(drafts: Sequence[Draft], given: Sequence[Any], keys: Keys | None, *, limit_key: str | None) -> list[Draft]:
    """Give each of many drafts its keys, by the payload that it was made of."""
    said = {} if limit_key is None else {"limit_key": limit_key}
    if keys is None and not said:
        return list(drafts)
    return [
        draft._replace(task=keyed(draft.task, keys, said, payload))
        for draft, payload in zip(drafts, given, strict=True)
    ]
