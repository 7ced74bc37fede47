"""The sources that an app declares: each endpoint with where its records go and how it is asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from difflib import get_close_matches
from typing import Any

from ferryman.ingest.model import Cut
from ferryman.ingest.ports import GateKey, Sink, Source
from ferryman.ingest.rules import expression, pace, slicing
from ferryman.ingest.rules.pace import Pace
from ferryman.kernel import errors, ids

Compile = Callable[[Mapping[str, Any], Mapping[str, Any]], Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Declared:
    """One endpoint of a source. What a plan needs of it is kept with the plan as a snapshot."""

    name: str
    endpoint: str
    source: Source
    sink: Sink
    ordered: bool = False  # pages come in the order of their watermark
    strategy: str = slicing.TIME
    params: Mapping[str, Any] = field(default_factory=dict)
    page_items: int | None = None  # records of a page, to know how many pages an estimate is
    safety_lag: timedelta | None = None
    credential: str = ""
    rate: str | None = None  # requests at best, such as "10/s"
    burst: int | None = None
    timeout: timedelta = timedelta(seconds=60)
    compile: Compile | None = None  # makes the parameters of a slice's requests of the expression's and its bounds

    @property
    def key(self) -> GateKey:
        """What shares one rate."""
        return GateKey(self.name, self.endpoint, self.credential)

    @property
    def pace(self) -> Pace:
        """How fast it may be asked at best."""
        return pace.agree(self.rate, burst=self.burst)

    def ask(self, asked: Mapping[str, Any], cut: Cut) -> dict[str, Any]:
        """Return the parameters of a slice's requests; raises where the expression cannot be asked of this slice."""
        rendered = expression.render(asked, cut)
        return rendered if self.compile is None else dict(self.compile(rendered, cut.spec()))

    def snapshot(self) -> dict[str, Any]:
        """Return what a plan remembers of it; no credential, which may be a secret."""
        return {
            "ordered": self.ordered,
            "strategy": self.strategy,
            "params": dict(self.params),
            "page_items": self.page_items,
            "safety_lag_seconds": None if self.safety_lag is None else self.safety_lag.total_seconds(),
            "timeout_seconds": self.timeout.total_seconds(),
        }


class Sources:
    """What an app knows, by source and endpoint."""

    def __init__(self) -> None:
        """Begin with none."""
        self.declared: dict[tuple[str, str], Declared] = {}

    def add(self, declared: Declared) -> None:
        """Take one; a source and endpoint are declared once."""
        name = (ids.check_name(declared.name, "source"), ids.check_name(declared.endpoint, "endpoint"))
        if name in self.declared:
            raise errors.HandlerInvalid(f"Two sources are named {name[0]} with the endpoint {name[1]}.")
        if declared.strategy not in slicing.STRATEGIES:
            expected = ", ".join(slicing.STRATEGIES)
            raise errors.HandlerInvalid(f"strategy: expected one of {expected}, got {declared.strategy!r}.")
        for part, verb in ((declared.source, "fetch"), (declared.sink, "write")):
            if not callable(getattr(part, verb, None)):
                raise errors.HandlerInvalid(f"The source {declared.name} needs something with an async `{verb}`.")
        declared.pace  # noqa: B018 - a rate that cannot be read is told here
        self.declared[name] = declared

    def pace_of(self, key: GateKey) -> Pace:
        """Return how fast an endpoint may be asked; one that is not declared here has no rate of its own."""
        known = self.declared.get((key.source, key.endpoint))
        return pace.agree() if known is None else known.pace

    def ready(self) -> None:
        """Refuse at the door what would fail at a source's first request, such as a secret that is not there."""
        for each in self.declared.values():
            ready = getattr(each.source, "ready", None)
            if callable(ready):
                ready()

    async def close(self) -> None:
        """Let sources hang up that hold connections."""
        for each in self.declared.values():
            close = getattr(each.source, "close", None)
            if callable(close):
                await close()

    def find(self, source: str, endpoint: str | None) -> Declared:
        """Return a declaration; the endpoint may be left out where there is one."""
        mine = {each: found for (name, each), found in self.declared.items() if name == source}
        if endpoint is None and len(mine) == 1:
            return next(iter(mine.values()))
        if endpoint is not None and endpoint in mine:
            return mine[endpoint]
        if mine:
            told = f"{source} has the endpoints {', '.join(sorted(mine))}"
            got = "" if endpoint is None else f", and none is named {endpoint}"
            raise errors.IngestUnknownSource(f"{told}{got}: name one.", source=source, endpoint=endpoint)
        known = sorted({name for name, _ in self.declared})
        near = get_close_matches(str(source), known, n=1)
        hint = f" Did you mean {near[0]}?" if near else f" Declared here: {', '.join(known[:8]) or 'none'}."
        raise errors.IngestUnknownSource(f"No source is named {source}.{hint}", source=source)
