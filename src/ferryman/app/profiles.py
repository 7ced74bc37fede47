"""How agents and their tools are registered: the decorators `@app.agent` and `@app.tool`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import timedelta
from typing import Any, Literal, TypeVar, overload

from ferryman.agents.work.profiles import EVERYBODY, TOOL_TASK, Budget, Limits, Profiles, Tool, limits_of
from ferryman.app.registry import Registry
from ferryman.kernel import errors, ids

Handled = TypeVar("Handled", bound=Callable[..., Any])


class Declares:
    """The part of an app in which agents and tools are registered."""

    _handlers: Registry
    _profiles: Profiles

    @overload
    def agent(self, function: Handled, /) -> Handled: ...

    @overload
    def agent(
        self,
        /,
        *,
        name: str | None = None,
        tools: Collection[str | Callable[..., Any]] | None = None,
        delegates_to: Collection[str] = (EVERYBODY,),
        when_busy: str = "enqueue",
        worker_target: str = "default",
        limits: Limits | Mapping[str, Any] | None = None,
        budget: Budget | None = None,
    ) -> Callable[[Handled], Handled]: ...

    def agent(
        self,
        function: Any = None,
        /,
        *,
        name: str | None = None,
        tools: Collection[str | Callable[..., Any]] | None = None,
        delegates_to: Collection[str] = (EVERYBODY,),
        when_busy: str = "enqueue",
        worker_target: str = "default",
        limits: Limits | Mapping[str, Any] | None = None,
        budget: Budget | None = None,
    ) -> Any:
        """Register an async function of a `Turn` as what does the turns of agents of this profile.

        `tools` are those that it may call (all of the app's if not said), `delegates_to` the profiles and agents that it may
        ask for turns. `when_busy` says what becomes of a message for an agent at work: enqueue, reject, interrupt or merge.
        `limits` bound one turn, `budget` a turn and all that it leads to.
        """

        def register(given: Handled) -> Handled:
            self._profiles.add(
                given,
                name=name,
                tools=None if tools is None else frozenset(map(_tool_name, tools)),
                delegates=frozenset(delegates_to),
                when_busy=when_busy,
                worker_target=worker_target,
                limits=limits_of(limits),
                budget=budget,
            )
            return given

        return register if function is None else register(function)

    @overload
    def tool(self, function: Handled, /) -> Handled: ...

    @overload
    def tool(
        self,
        /,
        *,
        name: str | None = None,
        timeout_seconds: float | None = None,
        suspend_timeout_seconds: float | None = None,
        retries: int | None = None,
        backoff: Any = None,
        queue: str | None = None,
        after_execution: Literal["suspend", "terminate"] = "suspend",
        external: bool = False,
    ) -> Callable[[Handled], Handled]: ...

    def tool(
        self,
        function: Any = None,
        /,
        *,
        name: str | None = None,
        timeout_seconds: float | None = None,
        suspend_timeout_seconds: float | None = None,
        retries: int | None = None,
        backoff: Any = None,
        queue: str | None = None,
        after_execution: Literal["suspend", "terminate"] = "suspend",
        external: bool = False,
    ) -> Any:
        """Register a function, async or plain, as a tool that turns call; it runs as a task, with retries and a timeout.

        The turn waits for its result for `suspend_timeout_seconds`, else `timeout_seconds`, but never shorter than the
        setting `worker.suspend_timeout_seconds`. With `after_execution="terminate"` the result ends the turn. An `external`
        tool's function is only looked at for what fits it: somebody outside answers, by `app.agents.report`.
        """

        def register(given: Handled) -> Handled:
            known = ids.check_name(name or getattr(given, "__name__", ""), "name")
            if known in self._profiles.tools:
                raise errors.HandlerInvalid(f"Two tools are named {known}; give one of them another name.")
            fit = self._handlers.tool(
                given, name=f"{TOOL_TASK}{known}", external=external, queue=queue, timeout=timeout_seconds,
                max_retries=retries, backoff=backoff,
            )  # fmt: skip
            self._profiles.add_tool(
                Tool(
                    name=known,
                    fit=fit,
                    external=external,
                    timeout=_seconds(timeout_seconds),
                    suspend_timeout=_seconds(suspend_timeout_seconds),
                    after_execution=after_execution,
                )
            )
            return given

        return register if function is None else register(function)


def _tool_name(tool: str | Callable[..., Any]) -> str:
    return tool if isinstance(tool, str) else getattr(tool, "__name__", repr(tool))


def _seconds(given: float | None) -> timedelta | None:
    return None if given is None else timedelta(seconds=given)
