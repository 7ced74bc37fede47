"""Which setting paces and stops which rule of the watchdog, from the settings of an app to what a worker runs (W3, W4, W20)."""

from datetime import timedelta
from typing import Any

import pytest

from ferryman import Ferryman
from ferryman.app import wiring
from ferryman.app.terms import switches, turn_terms
from ferryman.kernel.settings import Settings
from ferryman.kernel.settings import Worker as WorkerSettings
from ferryman.kernel.watchdog import Rule, active

WORKERS = {"W1", "W2", "W3", "W4"}
PMO = {"W5", "W6", "W8", "W8-lost", "W9", "A18"}


async def rules_of(url: str, **settings: Any) -> tuple[dict[str, Rule], dict[str, Rule]]:
    """Return all rules of an app, and those that a worker of it runs."""
    async with Ferryman(url, **settings) as app:
        every = wiring.rules(app._open)
        running = active(every, switches(app.settings))
        return {rule.name: rule for rule in every}, {rule.name: rule for rule in running}


@pytest.mark.contract("W3", "W4", "W20")
async def test_the_workers_interval_paces_the_workers_rules_and_pmos_interval_those_of_pmo(database_url: str) -> None:
    _, rules = await rules_of(
        database_url, worker={"watchdog_interval_seconds": 0.7}, pmo={"watchdog_interval_seconds": 11}
    )

    assert {rules[name].every for name in WORKERS} == {timedelta(seconds=0.7)}
    assert {rules[name].every for name in PMO} == {timedelta(seconds=11)}


@pytest.mark.contract("W3")
@pytest.mark.parametrize(("interval", "lease"), [(1, 5), (20, 40), (0, 10)])
def test_a_result_is_leased_for_two_intervals_of_the_worker(interval: int, lease: int) -> None:
    settings = Settings(worker=WorkerSettings(watchdog_interval=timedelta(seconds=interval)))

    assert turn_terms(settings).ledger_lease == timedelta(seconds=lease)


@pytest.mark.contract("W3", "W4", "W20")
@pytest.mark.parametrize("off", [0, -1])
async def test_the_workers_interval_switches_its_rules_off_and_no_bound(database_url: str, off: int) -> None:
    every, rules = await rules_of(database_url, worker={"watchdog_interval_seconds": off})

    assert rules.keys() & (WORKERS | {"W9"}) == {"W1", "W2", "W9"}  # W1 and W2 have settings of their own
    assert {rule.name for rule in every.values() if rule.only_bound} <= rules.keys()
    assert {"K10", "K10-sequences"} <= rules.keys()
    assert min(rule.every for rule in rules.values()) > timedelta(0)
    assert rules["T21"].every == timedelta(seconds=5)


@pytest.mark.contract("W9", "W20")
async def test_pmos_interval_switches_its_rules_off_and_none_of_the_workers(database_url: str) -> None:
    _, rules = await rules_of(database_url, pmo={"watchdog_interval_seconds": 0})

    assert rules.keys() >= WORKERS | {"W6", "A18"}
    assert "W9" not in rules
    assert rules["W6"].every == timedelta(seconds=5)
