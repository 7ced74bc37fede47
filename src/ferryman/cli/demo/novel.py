"""A novel is written by command (C11): a character is designed, related and given an arc, and a reviewer has his say.

The flow is that of source 001, with rules in the place of models, so that it runs anywhere and ends the same each time. A
design that the reviewer gives less than 7.5 is made anew, three times at most.
"""

from __future__ import annotations

from typing import Any

from ferryman.app.ferryman import Ferryman
from ferryman.cli.demo.stage import PATIENCE_SECONDS, Stage
from ferryman.commands.intake.read import Story
from ferryman.commands.model import Command, Fact, Message, Result
from ferryman.commands.states import AsyncTaskStatus, CommandStatus

THRESHOLD = 7.5
TRIES = 3
# What the first design of each is worth; the reviewer gives a point more for each revision.
TALENT = {"heroine": 6.0, "villain": 3.0}


def write(app: Ferryman) -> None:
    """Register the commands and the capabilities of the novel."""
    app.on_command("Character.Request", fact="Character.Requested")(character)
    app.capability("Character.Design.Generation")(design)
    app.capability("Character.Relationship.Analysis")(relate)
    app.capability("Character.Arc.Design")(arc)
    app.on_result("Character.Design.Generated")(designed)
    app.capability("Review.Quality.Evaluation")(review)
    app.on_result("Review.Quality.Evaluated")(reviewed)


async def character(command: Command) -> list[Message]:
    """Ask for a design, for relations and for an arc."""
    kind = command.payload["character_type"]
    return [
        Message("Character.Design.GenerationRequested", {"character_type": kind, "attempt": 0}),
        Message("Character.Relationship.AnalysisRequested", {"existing_characters": command.payload["existing"]}),
        Message("Character.Arc.Design", {"character_type": kind}),
    ]


async def design(character_type: str, attempt: int) -> dict[str, Any]:
    """Design a character; each revision is a little better."""
    return {"character_type": character_type, "attempt": attempt, "worth": TALENT[character_type] + attempt}


async def relate(existing_characters: list[str]) -> dict[str, str]:
    """Find out how a character stands to the others."""
    return dict.fromkeys(existing_characters, "wary of")


async def arc(character_type: str) -> list[str]:
    """Find the arc of a character."""
    return [f"the {character_type} sets out", "all is lost", "home again"]


async def designed(result: Result) -> list[Fact | Message]:
    """Propose a design, and let it be reviewed."""
    return [
        Fact("Character.Proposed", {"attempt": result.result["attempt"]}),
        Message("Review.Quality.EvaluationRequested", {"design": result.result}),
    ]


async def review(design: dict[str, Any]) -> dict[str, Any]:
    """Give a score."""
    return {"score": design["worth"], "design": design}


async def reviewed(result: Result) -> list[Fact | Message]:
    """Confirm what is good enough; have the rest made anew, up to three times."""
    score, made = result.result["score"], result.result["design"]
    if score >= THRESHOLD:
        return [Fact("Character.Confirmed", {"score": score})]
    if made["attempt"] + 1 >= TRIES:
        return [Fact("Character.Failed", {"score": score})]
    again = {"character_type": made["character_type"], "attempt": made["attempt"] + 1}
    return [
        Fact("Character.RegenerationRequested", {"score": score}),
        Message("Character.Design.GenerationRequested", again),
    ]


async def directing(stage: Stage) -> None:
    """Two commands, each with everything that comes of it."""
    stage.tale.act("A novel: two commands, each starts three capabilities, and a reviewer sends designs back")
    kinds = {"heroine": "Character.Confirmed", "villain": "Character.Failed"}
    sent = {
        kind: await stage.app.commands.send(
            "Character.Request", {"character_type": kind, "existing": ["Ishmael"]}, session_id="novel-1", idempotency_key=kind
        )
        for kind in kinds
    }  # fmt: skip
    for kind, verdict in kinds.items():
        command = await stage.app.commands.wait(sent[kind].id, timeout=PATIENCE_SECONDS)
        story = await stage.app.commands.story(command.id)
        stage.tale.tell(f"{kind}: {' → '.join(_told(story))}")
        scores = [event.data for event in story.events if event.subject_name == "Review.Quality.Evaluated"]
        stage.tale.hold(
            command.status is CommandStatus.COMPLETED
            and story.facts().count(verdict) == 1
            and len(scores) == TRIES
            and [task.status for task in story.tasks] == [AsyncTaskStatus.COMPLETED] * (2 + 2 * TRIES),
            f"{command.status.value} after {len(story.tasks)} async tasks and {len(scores)} reviews: {verdict}",
        )


def _told(story: Story) -> list[str]:
    """Return what a person wants to hear of it: the facts about the character."""
    return [name.removeprefix("Character.") for name in story.facts() if name.count(".") == 1]
