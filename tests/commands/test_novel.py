"""The source's own flow runs, offline, and ends as its rules say (C11)."""

import asyncio
import json

import pytest

from ferryman.cli.demo import novel
from ferryman.commands.states import CommandStatus
from tests.commands.conftest import Open
from tests.patience import PATIENCE_SECONDS


@pytest.mark.contract("C11", "C2", "C5")
async def test_a_design_is_made_anew_until_it_is_good_enough_or_three_were_not(open_app: Open) -> None:
    app = await open_app(novel.write)
    async with app.worker():
        sent = [
            await app.commands.send(
                "Character.Request", {"character_type": kind, "existing": ["Ishmael"]}, session_id="n"
            )
            for kind in novel.TALENT
        ]
        ended = await asyncio.gather(*(app.commands.wait(each.id, timeout=PATIENCE_SECONDS) for each in sent))

    assert {each.status for each in ended} == {CommandStatus.COMPLETED}
    for each, verdict, score in zip(sent, ("Character.Confirmed", "Character.Failed"), (8.0, 5.0), strict=True):
        story = await app.commands.story(each.id)
        facts = [name for name in story.facts() if name.count(".") == 1]
        # Each round states its facts again: in the source the second is swallowed, because it looks like the first.
        assert facts == [
            "Character.Requested",
            "Character.Proposed", "Character.RegenerationRequested",
            "Character.Proposed", "Character.RegenerationRequested",
            "Character.Proposed", verdict,
        ]  # fmt: skip
        last = next(event for event in story.events if event.subject_name == verdict)
        assert json.loads(last.data or "") == {"score": score}
        assert sorted(task.task_type for task in story.tasks) == [
            "Character.Arc.Design", *["Character.Design.Generation"] * 3, "Character.Relationship.Analysis",
            *["Review.Quality.Evaluation"] * 3,
        ]  # fmt: skip
