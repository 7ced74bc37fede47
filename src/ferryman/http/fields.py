"""What stands in paths and queries: tokens, names and texts that can be stored, and how long somebody waits."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import Path, Query
from pydantic import Field, StringConstraints

TOKEN = r"^[A-Za-z0-9_:-]{1,200}$"
NAME = r"^[A-Za-z0-9_.:-]{1,200}$"
KEY = r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]{1,200}$"
# A connection that waits is held by everything between us and its client; most of that gives up after a minute.
WAIT_MAX = 60
WHOLE_MAX = 2**63 - 1

Token = Annotated[str, StringConstraints(pattern=TOKEN)]
Name = Annotated[str, StringConstraints(pattern=NAME)]
Key = Annotated[str, StringConstraints(pattern=KEY)]
Whole = Annotated[int, Field(ge=0, le=WHOLE_MAX)]

AgentId = Annotated[str, Path(pattern=TOKEN, description="The agent's id.")]
CallId = Annotated[str, Path(pattern=KEY, description="The id of the call, as its card names it.")]
Named = Annotated[str, Path(pattern=NAME, description="Its id, or its name.")]
Before = Annotated[UUID | None, Query(description="Go on before this id: `next` of the page before.")]
Wait = Annotated[float, Query(ge=0, le=WAIT_MAX, description="Wait for the end, so many seconds at most.")]
