"""A small research assistant: two tools, and a model that is a script, so that it runs offline.

What makes it durable is only that each of its model's answers is a step and each of its tools a call.
"""

from __future__ import annotations

import os
from typing import Any

from ferryman.agents.work.steps import Spent
from ferryman.agents.work.turn import Turn
from ferryman.app.ferryman import Ferryman

SHELF = {
    "ferries": "The first ferries were rafts on ropes.",
    "rivers": "A river may be crossed where it is slow.",
}


def register(app: Ferryman) -> None:
    """Let an app have the assistant and its tools."""

    @app.tool(timeout_seconds=10)
    async def search(topic: str) -> dict[str, Any]:
        """Look a topic up."""
        return {"topic": topic, "found": SHELF.get(topic, "nothing"), "pid": os.getpid()}

    @app.tool(external=True, suspend_timeout_seconds=600)
    def ask_editor(draft: str) -> None:
        """Ask a person, who answers when there is time: no worker waits for it."""

    @app.agent(limits={"max_steps": 10, "max_tool_calls": 10}, tools=["search", "ask_editor"])
    async def assistant(turn: Turn) -> dict[str, Any]:
        """Plan, search, draft, ask the editor, and write."""
        topics = await turn.step("plan", plan, turn.instruction)
        found = await turn.call_tools([("search", {"topic": topic}) for topic in topics])
        draft = await turn.step("draft", write, [each.value["found"] for each in found if each.ok])
        verdict = await turn.call_tool("ask_editor", draft=draft["text"])
        final = await turn.step("polish", write, [draft["text"], f"({verdict})"])
        return {"text": final["text"], "pids": [draft["pid"], final["pid"]]}


async def plan(question: str) -> Spent[list[str]]:
    """Answer as a model would: which topics to look up."""
    topics = [topic for topic in SHELF if topic[:4] in question.lower()] or list(SHELF)
    return Spent(topics, input_tokens=12, output_tokens=4, cost=0.0001)


async def write(parts: list[str]) -> Spent[dict[str, Any]]:
    """Answer as a model would: one text of several; and who asked it."""
    return Spent({"text": " ".join(parts), "pid": os.getpid()}, input_tokens=40, output_tokens=20, cost=0.0004)
