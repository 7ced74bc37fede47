"""What goes out: JSON, and the shapes that pages of a list have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Generic, TypeVar

import orjson
from fastapi import Query, Response
from pydantic import BaseModel, ConfigDict

from ferryman.app.doctor.report import plain

Item = TypeVar("Item")

LIMIT = 50
LIMIT_MAX = 1000

Limit = Annotated[int, Query(ge=1, le=LIMIT_MAX, description="How many at most.")]


class Answer(Response):
    """A JSON answer."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """Write it as JSON."""
        return written(content)


def written(content: Any) -> bytes:
    """Return JSON; times and ids are text."""
    return orjson.dumps(content, default=plain, option=orjson.OPT_UTC_Z)


class Shape(BaseModel):
    """What an object looks like from outside; fields that are not named here stay inside."""

    model_config = ConfigDict(from_attributes=True, extra="ignore")


class Asked(BaseModel):
    """What a request may say; a field that is not named here is a mistake, and told."""

    model_config = ConfigDict(extra="forbid")


class Page(BaseModel, Generic[Item]):
    """A part of a list. `next` is what to give as `before` (or `after`) for the next part; null at the end."""

    items: Sequence[Item]
    next: str | None = None


def page(items: Sequence[Any], *, limit: int, key: str = "id") -> dict[str, Any]:
    """Return a page of the records of a keyset list: a full one may have a next."""
    last = getattr(items[-1], key) if len(items) == limit else None
    return {"items": items, "next": None if last is None else str(last)}


def also(status: int, shape: type[BaseModel]) -> dict[int | str, dict[str, Any]]:
    """Describe a second good answer of an operation: 200 for what was there already, 202 for what goes on."""
    told = {200: "It was there already.", 202: "It goes on."}
    return {status: {"model": shape, "description": told[status]}}


class Problem(BaseModel):
    """What went wrong (RFC 9457), with our stable code and what to do next."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    code: str
    message: str
    advice: str
    retryable: bool
    details: dict[str, Any]
