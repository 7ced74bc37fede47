"""What users register: profiles, which do turns, and the tools that they call (A9, A10).

A profile is an async function of a `Turn` with what it may do: its tools, whom it may ask for turns, how much it may use. A
tool is a function that runs as a task, or, declared external, a name whose calls somebody outside answers. Tools of other
processes are known by being declared external or registered there under the same name.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from difflib import get_close_matches
from typing import Any, Literal

from ferryman.agents.rules import AFTER_EXECUTION, BUSY_POLICIES
from ferryman.kernel import errors, ids
from ferryman.tasks.work.handlers import Fit

Function = Callable[..., Any]

# How a tool's task is named: a tool and a task of one name are two things.
TOOL_TASK = "tool."
EVERYBODY = "*"


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How much one turn may use before it ends as partial (A18)."""

    max_steps: int = 200
    max_tool_calls: int = 200
    max_tokens: int = 2_000_000
    max_cost: float = 1000.0
    wall_time: timedelta | None = None  # None: the settings' `agents.wall_time`

    def __post_init__(self) -> None:
        """Refuse what would end every turn at once."""
        for name in ("max_steps", "max_tool_calls", "max_tokens", "max_cost"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
                raise errors.HandlerInvalid(f"{name}: expected a number, 0 or more, got {value!r}.")
        if self.wall_time is not None and self.wall_time <= timedelta(0):
            raise errors.HandlerInvalid(f"wall_time: expected more than 0 seconds, got {self.wall_time}.")


@dataclass(frozen=True, kw_only=True)
class Budget:
    """How much a turn and every turn that it leads to may use together; None is no limit (A21)."""

    tokens: int | None = None
    tool_calls: int | None = None
    cost: float | None = None


@dataclass(frozen=True, kw_only=True)
class Tool:
    """A tool: what checks its arguments, how long it may take, and what follows its result."""

    name: str
    fit: Fit | None  # None: somebody outside knows what fits
    external: bool = False
    timeout: timedelta | None = None
    suspend_timeout: timedelta | None = None
    after_execution: Literal["suspend", "terminate"] = "suspend"

    def patience(self, otherwise: timedelta) -> timedelta:
        """Return how long a turn waits for a result (A11)."""
        return max(otherwise, self.suspend_timeout or self.timeout or otherwise)


@dataclass(frozen=True, kw_only=True)
class Profile:
    """A registered agent: the function that does its turns, and what that may do."""

    name: str
    function: Function
    tools: Collection[str] | None = None  # None: every tool of the app
    delegates: Collection[str] = (EVERYBODY,)
    when_busy: str = "enqueue"
    worker_target: str = "default"
    limits: Limits = field(default_factory=Limits)
    budget: Budget | None = None

    def may_ask(self, *names: str) -> bool:
        """Tell whether it may ask an agent, known by its id or its profile, for a turn."""
        return EVERYBODY in self.delegates or any(name in self.delegates for name in names)


class Profiles:
    """The profiles and tools of an app."""

    def __init__(self) -> None:
        """Begin empty."""
        self.profiles: dict[str, Profile] = {}
        self.tools: dict[str, Tool] = {}
        self._names: dict[Function, str] = {}

    def add(self, function: Function, *, name: str | None, **options: Any) -> Profile:
        """Register the function of a profile; say at once what is wrong with it."""
        known = ids.check_name(name or getattr(function, "__name__", ""), "name")
        if known in self.profiles:
            raise errors.HandlerInvalid(f"Two agents are named {known}; give one of them another name.")
        if not inspect.iscoroutinefunction(function):
            raise errors.HandlerInvalid(f"{known}: an agent's function is async: it waits for its tools.")
        if len(inspect.signature(function).parameters) != 1:
            raise errors.HandlerInvalid(f"{known}: expected a function of one parameter, the turn.")
        if options.get("when_busy", "enqueue") not in BUSY_POLICIES:
            raise errors.HandlerInvalid(
                f"{known}: when_busy: expected one of {', '.join(BUSY_POLICIES)}, got {options['when_busy']!r}."
            )
        profile = self.profiles[known] = Profile(name=known, function=function, **options)
        self._names[function] = known
        return profile

    def add_tool(self, tool: Tool) -> None:
        """Register a tool; a name is given once."""
        if tool.name in self.tools:
            raise errors.HandlerInvalid(f"Two tools are named {tool.name}; give one of them another name.")
        if tool.after_execution not in AFTER_EXECUTION:
            raise errors.HandlerInvalid(
                f"{tool.name}: after_execution: expected suspend or terminate, got {tool.after_execution!r}."
            )
        for field_name in ("timeout", "suspend_timeout"):
            value = getattr(tool, field_name)
            if value is not None and value <= timedelta(0):
                raise errors.HandlerInvalid(f"{tool.name}: {field_name}_seconds: expected more than 0, got {value}.")
        self.tools[tool.name] = tool

    def name_of(self, agent: str | Function) -> str:
        """Return the name of an agent or a profile, also when its function is given."""
        if isinstance(agent, str):
            return agent
        found = self._names.get(agent)
        if found is None:
            shown = getattr(agent, "__name__", repr(agent))
            raise errors.HandlerInvalid(f"{shown} is not an agent of this app; decorate it with @app.agent.")
        return found

    def tool(self, name: str, profile: Profile) -> Tool | str:
        """Return a tool that a profile may call, or what to say when there is none."""
        allowed = self.tools if profile.tools is None else profile.tools
        found = self.tools.get(name) if name in allowed else None
        return _unknown(name, [each for each in allowed if each in self.tools]) if found is None else found


def _unknown(name: str, known: Sequence[str]) -> str:
    near = get_close_matches(name, known, n=1)
    listed = f"It has: {', '.join(sorted(known)[:8])}." if known else "It has none."
    hint = f"Did you mean {near[0]}?" if near else listed
    return f"The agent has no tool named {name[:80]}. {hint}"


def limits_of(given: Limits | Mapping[str, Any] | None) -> Limits:
    """Read limits that may be given as a mapping."""
    if given is None or isinstance(given, Limits):
        return given or Limits()
    try:
        return Limits(**given)
    except TypeError as error:
        raise errors.HandlerInvalid(f"limits: {error}.") from None
