"""`ferryman ingest`."""

import pytest

from ferryman.cli import exits
from ferryman.cli.ingest import move, plan
from ferryman.kernel import errors
from tests.surfaces import ferry

APP = ("--app", "depot:app")
WINDOW = ("--since", "2026-01-01T00:00:00Z", "--until", "2026-01-01T02:00:00Z")
STRANGER = "01900000-0000-7000-8000-000000000000"


@pytest.mark.contract("S3", "I16", "I12", "I11")
def test_a_harvest_can_be_run_seen_proven_and_taken_back(database_url: str) -> None:
    url = database_url
    planned = ferry.run("ingest", "plan", "depot", *APP, *WINDOW, "--json", url=url)
    before = ferry.run("ingest", "status", url=url)
    ran = ferry.run("ingest", "run", "depot", *APP, *WINDOW, url=url)
    status = ferry.run("ingest", "status", "--json", url=url)
    box = ferry.run("ingest", "blackbox", planned.json["plan"], url=url)
    aside = ferry.run("ingest", "quarantine", "depot", url=url)
    replayed = ferry.run("ingest", "replay", url=url)
    back = ("ingest", "rewind", "depot", "--to", "2026-01-01T01:00:00Z", "--reason", "late corrections")
    rewound = ferry.run(*back, url=url)
    again = ferry.run(*back, url=url)
    filled = ferry.run("ingest", "backfill", "depot", *APP, "--since", "2025-12-31T22:00:00Z", url=url)

    assert (planned.json["made"], planned.json["slices"]) == (True, 2)
    assert "░" * 20 in before.out
    assert "█" * 20 in ran.out
    assert "100%" in ran.out
    assert "over" in ran.out
    [plan] = status.json["plans"]
    assert (plan["share"], plan["items"], plan["quarantined"], plan["over"]) == (1.0, 120, 1, True)
    assert "attempt 1  SUCCEEDED" in box.out
    assert "cursor forward 2026-01-01T00:00:00.000000Z to 2026-01-01T0" in box.out
    assert planned.json["plan"] in ran.out
    assert "the answer to everything" in aside.out
    assert replayed.code == 0
    assert "good" in replayed.out
    assert "stands at 2026-01-01T01:00:00" in rewound.out
    assert (again.code, "expected a place behind the cursor" in again.err) == (2, True)
    assert "READY" in filled.out


@pytest.mark.contract("S3", "K22", "I16")
def test_a_harvest_that_did_not_get_everything_says_so_and_fails(database_url: str) -> None:
    lost = ("--since", "2020-01-01T00:00:00Z", "--until", "2020-01-01T01:00:00Z")
    ran = ferry.run("ingest", "run", "depot", *APP, *lost, url=database_url)
    id = ran.err.partition("ferryman explain ")[2].split()[0]
    told = ferry.run("explain", id, url=database_url)

    assert ran.code == 1
    assert id in ran.out
    assert "It was planned (READY) and is over: 0 of its 1 slices were fetched, nothing of its window." in told.out
    assert "ended as FAILED: it was never there" in told.out.replace("\n", " ")


@pytest.mark.contract("S3", "S7", "K20")
def test_what_is_wrong_is_told_with_what_to_do(database_url: str) -> None:
    url = database_url
    wrong = {
        "No source is named deport. Did you mean depot?": (4, ("plan", "deport", *APP)),
        "expected since before until": (2, ("plan", "depot", *APP, "--since", "2026-01-02", "--until", "2026-01-01")),
        "strategy: expected one of TIME": (2, ("plan", "depot", *APP, "--strategy", "MOON")),
        "budget.items: expected a whole number above 0": (2, ("plan", "depot", *APP, "--budget", '{"items": 0}')),
        "there is no place {whenever}": (
            2,
            ("plan", "depot", *APP, "--expression", "at {whenever}"),
        ),
        "params.last: expected a whole number, got nothing": (
            2,
            ("plan", "depot", *APP, "--strategy", "ID_RANGE", "--params", '{"first": 1}'),
        ),
        "There is no plan": (4, ("status", STRANGER)),
        "There is no run, task or plan": (4, ("blackbox", STRANGER)),
        "Expected an id": (2, ("status", "here")),
        "There is no cursor": (4, ("rewind", "depot", "--to", "2026-01-01", "--reason", "x")),
    }
    for sentence, (code, arguments) in wrong.items():
        ran = ferry.run("ingest", *arguments, url=url)
        assert (ran.code, sentence in ran.err.replace("\n", " ")) == (code, True), ran.err
    assert "There are no plans." in ferry.run("ingest", "status", url=url).err


@pytest.mark.contract("S7", "K20", "I2")
async def test_a_time_that_is_none_is_refused_in_the_words_of_ingestion() -> None:
    cases = {
        "INGEST_INVALID_WINDOW --since: expected an instant such as": plan.run(
            "depot", app="depot:app", since="nonsense"
        ),
        "INGEST_INVALID_WINDOW --until: expected an instant such as": plan.plan(
            "depot", app="depot:app", until="+soon"
        ),
        "INGEST_INVALID_REQUEST --to: expected an id, or an instant": move.rewind("depot", to="yesterday", reason="x"),
    }
    for told, asked in cases.items():
        with pytest.raises(errors.FerrymanError) as caught:
            await asked
        assert f"{caught.value.code} {caught.value.message}".startswith(told)
        assert exits.of(caught.value) == exits.USAGE
