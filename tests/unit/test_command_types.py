"""Types of messages and what follows from them, and what users' functions may return (C3, C2, C4)."""

from typing import Any

import pytest

from ferryman.app.mappings import Mappings
from ferryman.app.registry import Registry
from ferryman.commands.model import Fact, Message, Result
from ferryman.commands.rules import names, plan, request, types
from ferryman.kernel import errors, ids
from ferryman.tasks.rules.request import Defaults

# The source's two examples, its other types, and those that its own rule leaves unchanged or cuts too short.
NORMALISED = {
    "Character.Design.GenerationRequested": "Character.Design.Generation",
    "Outliner.Theme.Generated": "Outliner.Theme.Generation",
    "Review.Quality.EvaluationRequested": "Review.Quality.Evaluation",
    "Review.Quality.Evaluated": "Review.Quality.Evaluation",
    "Review.Quality.Result": "Review.Quality",
    "Review.Consistency.CheckRequested": "Review.Consistency.Check",
    "Review.Consistency.Checked": "Review.Consistency.Check",
    "Character.Relationship.AnalysisRequested": "Character.Relationship.Analysis",
    "Character.Relationship.Analyzed": "Character.Relationship.Analysis",
    "Stage.ValidationRequested": "Stage.Validation",
    "Stage.Validated": "Stage.Validation",
    "Chapter.RevisionRequested": "Chapter.Revision",
    "Chapter.Revised": "Chapter.Revision",
    "Theme.Requested": "Theme",
    "Theme.Started": "Theme",
    "Character.Arc.Design.Completed": "Character.Arc.Design",
    "Character.Arc.Design": "Character.Arc.Design",
    "Requested": "Requested",
    "Generated": "Generated",
    "": "",
}


@pytest.mark.contract("C3")
@pytest.mark.parametrize(("type", "normalised"), NORMALISED.items())
def test_a_type_is_normalised_as_the_examples_of_the_source_say(type: str, normalised: str) -> None:
    assert types.normalised(type) == normalised


@pytest.mark.contract("C3", "C4")
@pytest.mark.parametrize("task_type", sorted({each for each in NORMALISED.values() if each}))
def test_the_result_that_a_capability_gives_by_default_is_about_its_task(task_type: str) -> None:
    assert types.normalised(types.result_of(task_type)) == task_type


@pytest.mark.contract("C2")
@pytest.mark.parametrize(
    ("command", "fact"),
    [
        ("Character.Request", "Character.Requested"),
        ("Theme.Requested", "Theme.Requested"),
        ("Stage.Validate", "Stage.Validate.Requested"),
        ("Request", "Requested"),
        ("CHARACTER_REQUEST", "CHARACTER_REQUEST.Requested"),
    ],
)
def test_a_command_states_its_fact(command: str, fact: str) -> None:
    assert types.fact_of(command) == fact


def mappings() -> Mappings:
    return Mappings(Registry(Defaults()))


def read(answer: Any) -> Any:
    return plan.read(answer, told="on_command('X')", complete=mappings().complete)


@pytest.mark.contract("C2")
@pytest.mark.parametrize(
    ("answer", "messages", "facts"),
    [
        (None, 0, 0),
        ([], 0, 0),
        (Message("A.GenerationRequested"), 1, 0),
        ({"type": "A.GenerationRequested", "input": {"x": 1}}, 1, 0),
        ((Message("A"), Fact("B.Stated"), Message("A")), 2, 1),
    ],
)
def test_a_mapping_returns_messages_and_facts(answer: Any, messages: int, facts: int) -> None:
    made = read(answer)

    assert (len(made.messages), len(made.facts)) == (messages, facts)
    assert plan.from_json(plan.as_json(made)) == made._replace(
        messages=[each._replace(input=dict(each.input)) for each in made.messages], facts=list(made.facts)
    )


NONSENSE: list[Any] = [
    42,
    "Character.Design",
    {"input": {}},
    {"type": "A", "inputs": {}},
    [Message("A"), None],
    [[Message("A")]],
    Message("100%"),
    Message("A..B"),
    Message(""),
    Message("A:B"),
    Message("A" * 181),
    Message(7),  # type: ignore[arg-type]
    Message("A", ["no"]),  # type: ignore[arg-type]
    Message("A", {1: 2}),  # type: ignore[dict-item]
    Message("A", deadline=0),
    Message("A", delay=-1),
    Message("A", timeout=-1),
    Message("A", max_retries=-1),
    Message("A", queue="no queue"),
    Message("A", priority=99),
    Message("A", outside="yes"),  # type: ignore[arg-type]
    Fact("%"),
    Fact("A", 3),  # type: ignore[arg-type]
    [Message("A")] * 1001,
]


@pytest.mark.contract("C2", "K20")
@pytest.mark.parametrize("answer", NONSENSE, ids=lambda each: ascii(each)[:40])
def test_nonsense_is_refused_with_the_name_of_the_mapping(answer: Any) -> None:
    with pytest.raises(errors.CommandInvalidMapping) as refused:
        read(answer)

    assert "on_command('X')" in refused.value.message


@pytest.mark.contract("C4")
@pytest.mark.parametrize(
    ("answer", "type", "result"),
    [
        ({"name": "Ada"}, "Character.Design.Generated", {"name": "Ada"}),
        (None, "Character.Design.Generated", None),
        ({"type": "Character.Done", "data": {"session_id": "s", "result": 3}}, "Character.Done", 3),
        ({"type": "Character.Done", "data": 3}, "Character.Design.Generated", {"type": "Character.Done", "data": 3}),
        (Result("Character.Done", [1]), "Character.Done", [1]),
    ],
)
def test_a_capability_returns_a_result_message_or_the_plain_result(answer: Any, type: str, result: Any) -> None:
    told = plan.result(answer, task_type="Character.Design.Generation")

    assert (told.type, told.result) == (type, result)


def test_what_an_end_is_owed_to_is_read_back() -> None:
    command, task = ids.new_id(), ids.new_id()

    assert names.owed(names.ref(command)) == (command, None)
    assert names.owed(names.ref(command, task)) == (command, task)
    assert names.owed(names.ref(None, task)) == (None, task)


@pytest.mark.contract("K20", "C5")
@pytest.mark.parametrize("given", ["cmd-123", "", 7, None, "0" * 31])
def test_a_correlation_that_is_no_uuid_is_refused(given: object) -> None:
    with pytest.raises(errors.CommandInvalidRequest, match="correlation_id: expected the UUID"):
        request.check_id(given, "correlation_id")


@pytest.mark.parametrize("given", [-1, 100.5, "50", True, None, float("nan")])
def test_progress_beyond_its_range_is_refused(given: object) -> None:
    with pytest.raises(errors.CommandInvalidRequest, match="progress: expected 0 to 100"):
        request.percent(given)


def test_a_mapping_that_cannot_be_called_with_one_thing_does_not_register() -> None:
    for function in (lambda: None, lambda a, b: None, int):
        with pytest.raises(errors.HandlerInvalid):
            mappings().on_command(function, "A.Request", fact=None)
    with pytest.raises(errors.HandlerInvalid, match="limit_key: expected one of backoff, max_retries"):
        mappings().capability(lambda: None, "A", limit_key="x")
    with pytest.raises(errors.HandlerInvalid, match="expected 1 to 180 characters"):
        mappings().capability(lambda: None, "50%")
