"""Every broken promise has a code, a sentence and a next step (K20)."""

import copy
import pickle
from collections.abc import Callable

import pytest

from ferryman.kernel import errors

CLASSES = [
    thing for thing in vars(errors).values() if isinstance(thing, type) and issubclass(thing, errors.FerrymanError)
]
PROMISES = [cls for cls in CLASSES if cls is not errors.FerrymanError]


@pytest.mark.contract("K20")
def test_no_two_errors_share_a_code() -> None:
    codes = [cls.code for cls in CLASSES]

    assert len(codes) == len(set(codes))


@pytest.mark.contract("K20")
@pytest.mark.parametrize("cls", PROMISES)
def test_every_error_has_a_sentence_and_says_what_to_do_next(
    cls: type[errors.FerrymanError],
) -> None:
    error = cls()

    assert error.message.endswith(".")
    assert cls.advice.endswith(".")
    assert str(error) == f"{error.message} {error.advice}"
    assert cls.code == cls.code.upper()


def test_a_given_message_replaces_the_sentence_and_details_are_kept() -> None:
    error = errors.TaskInvalidPayload("The number is not finite.", path="$.price")

    assert error.as_dict() == {
        "code": "TASK_INVALID_PAYLOAD",
        "message": "The number is not finite.",
        "advice": errors.TaskInvalidPayload.advice,
        "retryable": False,
        "details": {"path": "$.price"},
    }


def test_a_refused_move_names_from_to_and_the_row() -> None:
    error = errors.InvalidTransition(from_="succeeded", to="running", id="7")

    assert error.message == "Cannot move 7 from succeeded to running."
    assert error.details == {"from": "succeeded", "to": "running", "id": "7"}
    assert error.code == "TASK_INVALID_TRANSITION"


def test_a_refused_birth_says_so() -> None:
    assert errors.InvalidTransition(to="running").message == "Cannot begin it as running."


def test_a_refused_move_takes_its_code_from_the_machine_that_refused() -> None:
    error = errors.InvalidTransition(code="BATCH_INVALID_TRANSITION", from_="a", to="b")

    assert error.as_dict()["code"] == "BATCH_INVALID_TRANSITION"
    assert errors.InvalidTransition.code == "TASK_INVALID_TRANSITION"


def test_a_duplicate_names_the_fields_and_the_existing_task() -> None:
    error = errors.TaskDuplicate(conflict_fields=("timeout_ms",), existing={"task_id": "a"})

    assert error.message == "The existing task differs from the request in timeout_ms."
    assert error.details == {"conflict_fields": ["timeout_ms"], "existing": {"task_id": "a"}}


@pytest.mark.parametrize("cls", [errors.TaskInvalidSchedule, errors.TaskInvalidRequest])
def test_a_bad_field_is_named(
    cls: type[errors.TaskInvalidSchedule | errors.TaskInvalidRequest],
) -> None:
    assert cls(field="timezone").details == {"field": "timezone"}


@pytest.mark.parametrize("carry", [copy.copy, lambda e: pickle.loads(pickle.dumps(e))])
def test_an_error_survives_being_copied(
    carry: Callable[[errors.FerrymanError], errors.FerrymanError],
) -> None:
    error = errors.InvalidTransition(code="X", from_="a", to="b", id="7")

    again = carry(error)

    assert again.as_dict() == error.as_dict()


def test_an_error_without_docstrings_still_says_its_code() -> None:
    class Bare(errors.FerrymanError):
        code = "BARE"

    Bare.__doc__ = None

    assert str(Bare()) == "BARE"


def test_a_handler_says_why_it_should_not_be_retried() -> None:
    assert errors.DoNotRetry("no such customer").reason == "no such customer"
    assert str(errors.DoNotRetry("no such customer")) == "no such customer"
