"""A novel is written by command (C11): a schedule asks for characters; each is designed, related, given an arc, and reviewed.

The flow is that of source 001, with rules in the place of models, so that it runs anywhere and ends the same each time. A
design that the reviewer gives less than 7.5 is made anew, three times at most.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

from ferryman.app.ferryman import Ferryman
from ferryman.app.schedules import Schedule
from ferryman.cli.demo.stage import LOOK_SECONDS, PATIENCE_SECONDS, Stage
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

    @app.task
    async def commission(kind: str) -> str:
        """Ask for a character by command; however often the schedule fires, it is one command."""
        sent = await app.commands.send(
            "Character.Request",
            {"character_type": kind, "existing": ["Ishmael"]},
            session_id="novel-1",
            idempotency_key=kind,
        )
        return str(sent.id)


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
    """Two commands, each sent by a task of a schedule, with everything that comes of them."""
    stage.tale.act("A schedule's task sends a command; it starts three capabilities, and a reviewer sends designs back")
    kinds = {"heroine": "Character.Confirmed", "villain": "Character.Failed"}
    sent = await _commissioned(stage, list(kinds))
    for kind, verdict in kinds.items():
        command = await stage.app.commands.wait(sent[kind], timeout=PATIENCE_SECONDS)
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


async def _commissioned(stage: Stage, kinds: Sequence[str]) -> dict[str, str]:
    """Let a schedule for each kind fire, and return the commands that its tasks have sent."""
    schedules = stage.app.schedules
    made = {kind: await schedules.create("commission", every=1, schedule_id=kind, kind=kind) for kind in kinds}
    sent = {kind: await _first(stage, schedule) for kind, schedule in made.items()}
    for schedule in made.values():
        await schedule.delete(reason="the characters are commissioned")
    fired = len(await stage.app.tasks.list(name="commission"))
    stage.measured.fired_tasks += fired
    stage.measured.firings += fired
    told = ", ".join(f"{kind} {id[-6:]}" for kind, id in sent.items())
    stage.tale.tell(
        f"{len(made)} schedules fired {fired} times, and {len(set(sent.values()))} commands were sent: {told}"
    )
    return sent


async def _first(stage: Stage, schedule: Schedule) -> str:
    """Wait for the first task of a schedule, and return what it answers."""
    until = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < until:
        if fired := await schedule.firings(limit=100):
            handle = await stage.app.tasks.get(fired[-1].id)
            return str(await handle.result(timeout=PATIENCE_SECONDS))
        await asyncio.sleep(LOOK_SECONDS)
    raise TimeoutError("the schedule did not fire")


def _told(story: Story) -> list[str]:
    """Return what a person wants to hear of it: the facts about the character."""
    return [name.removeprefix("Character.") for name in story.facts() if name.count(".") == 1]
