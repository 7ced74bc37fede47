"""`ferryman explain`."""

import pytest

from tests.surfaces import ferry

STRANGER = "01900000-0000-7000-8000-000000000000"


@pytest.mark.contract("K22")
def test_a_person_reads_why_it_does_not_run_and_what_ends_it(database_url: str) -> None:
    ferry.run("task", "create", "greet", "--id", "one", "--queue", "far", url=database_url)
    with ferry.worker(url=database_url):
        told = ferry.run("explain", "one", url=database_url)

    assert told.code == 0, told.err
    assert "It waits for a worker." in told.out
    assert "No living worker serves its queue far; they serve default.  (queue_not_served)" in told.out
    assert "T21 cancels it at " in told.out


@pytest.mark.contract("K22")
def test_a_program_reads_json(database_url: str) -> None:
    ferry.run("task", "create", "greet", "--id", "one", url=database_url)

    told = ferry.run("explain", "one", "--json", url=database_url).json

    assert (told["domain"], told["task_id"], told["state"]) == ("task", "one", "ready")
    assert told["reasons"][0]["code"] == "no_worker"
    assert told["ends"]["rule"] == "T21"


@pytest.mark.contract("K22", "K12")
def test_an_unknown_id_is_not_found(database_url: str) -> None:
    ferry.run("task", "create", "greet", "--id", "mine", url=database_url)

    for arguments in ((STRANGER,), ("nobody",), ("mine", "--tenant", "other")):
        ran = ferry.run("explain", *arguments, url=database_url)
        assert (ran.code, ran.out) == (4, "")
        assert ran.err.startswith("UNKNOWN_ID: ")
    assert ferry.run("explain", "a b", url=database_url).code == 2


@pytest.mark.contract("K22")
def test_what_a_handler_wrote_cannot_speak_to_the_terminal(database_url: str) -> None:
    ferry.run("task", "create", "greet", "--id", "one", url=database_url)
    ferry.run("task", "cancel", "one", "--reason", "\x1b[31mred", url=database_url)

    assert "\x1b" not in ferry.run("explain", "one", url=database_url).out
