"""A rule as data: what must not stay as it is, and what is done about it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from ferryman.kernel import telemetry
from ferryman.kernel.db import Tx

log = telemetry.logger("watchdog")


def _by_id(finding: Any) -> Hashable:
    name: Hashable = finding["id"]
    return name


async def _nothing(_tx: Tx, _findings: Sequence[Any]) -> int:
    return 0


@dataclass(frozen=True)
class Rule:
    """What must not stay as it is, and what is done about it."""

    name: str
    finds: str
    does: str
    setting: str
    every: timedelta
    find: Callable[[Tx, int], Awaitable[Sequence[Any]]]
    act: Callable[[Tx, Sequence[Any]], Awaitable[int]] = _nothing  # a rule that counts does all it does when it looks
    reaps: bool = False  # takes expired leases from their holders, so it waits for the end of a grace
    only_bound: bool = False  # the only end of a live state: cannot be switched off
    limit: int = 500
    budget: timedelta = timedelta(seconds=10)
    key: Callable[[Any], Hashable] = _by_id  # tells a finding from others
    after: Callable[[Sequence[Any]], None] | None = None  # called with what was acted on, after the commit: rings
    # In how many seconds there will be something to find, as far as its last look saw.
    soon: Callable[[], float | None] | None = None

    @property
    def acts(self) -> bool:
        """Whether it does something about what it finds; one that counts does not."""
        return self.act is not _nothing


def far_leases(
    name: str, shorten: Callable[..., Awaitable[Sequence[Any]]], *, every: timedelta, lease: timedelta
) -> Rule:
    """Return the rule that brings leases back into the time of a clock that was set back (K5); who lives renews them."""

    async def find(tx: Tx, limit: int) -> Sequence[Any]:
        found = await shorten(tx, limit, lease=lease)
        if found:
            log.warning("the clock was set back: leases were shortened", extra={"rule": name, "count": len(found)})
        return found

    return Rule(
        name=name,
        finds="a lease that ends later than any that is given now: the clock was set back",
        does="lets it end one lease from now; who lives has renewed it by then",
        setting="worker.watchdog_interval_seconds",
        every=every,
        find=find,
    )


@dataclass(frozen=True)
class Outcome:
    """What one look of one rule came to."""

    rule: str
    found: int = 0
    acted: int = 0
    spoiled: int = 0


@dataclass(frozen=True)
class Report:
    """What one round came to."""

    outcomes: tuple[Outcome, ...]
    withheld: tuple[str, ...] = ()

    def acted(self, *rules: str) -> int:
        """Return how many findings were acted on, by these rules or by all."""
        return sum(each.acted for each in self.outcomes if not rules or each.rule in rules)

    def spoiled(self, *rules: str) -> int:
        """Return how many findings could not be acted on."""
        return sum(each.spoiled for each in self.outcomes if not rules or each.rule in rules)


def active(rules: Iterable[Rule], settings: Mapping[str, float]) -> list[Rule]:
    """Return the rules that run: a setting of 0 or less switches its rule off, unless nothing else ends that state."""
    running = []
    for rule in rules:
        if settings.get(rule.setting, 1.0) > 0:
            running.append(rule)
        elif rule.only_bound:
            log.warning(
                "%s is the only end of a live state and cannot be switched off", rule.name, extra={"rule": rule.name}
            )
            running.append(rule)
    names = [rule.name for rule in running]
    if len(set(names)) < len(names):
        raise ValueError(f"Two rules of one name: {sorted(name for name in names if names.count(name) > 1)}")
    return running
