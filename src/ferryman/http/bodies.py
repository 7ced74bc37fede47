"""What comes in: JSON that can be stored, read once.

A body in the form of the sources is checked by the rules of its domain, which name the field and give the code; the framework
only describes it. So it is taken as it came, after the checks that hold for every stored text (depth, size of integers, NUL).
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Header, Request
from pydantic import BaseModel

from ferryman.kernel import errors, ids, payload

JSON = "application/json"
KEY_HEADER = "Idempotency-Key"


async def read(request: Request) -> dict[str, Any]:
    """Return the object that a body holds."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != JSON and not kind.endswith("+json"):
        raise errors.MediaUnknown(f"Expected {JSON}, got {kind or 'no Content-Type'}.")
    raw = await request.body()
    text = payload.check_text(
        raw, limit=request.app.state.ferryman.settings.http.body_limit, error=errors.RequestInvalid
    )
    value = payload.decode(text, error=errors.RequestInvalid)
    if not isinstance(value, dict):
        raise errors.RequestInvalid("Expected an object.", field="body")
    return value


Body = Annotated[dict[str, Any], Depends(read)]


def takes(shape: type[BaseModel], *, required: bool = True) -> dict[str, Any]:
    """Describe a body that is taken as it came, for the OpenAPI document."""
    schema = shape.model_json_schema(ref_template="#/components/schemas/{model}")
    return {"requestBody": {"required": required, "content": {JSON: {"schema": schema}}}}


def check_key(key: str | None) -> str | None:
    """Return the key of a header, if it can be one."""
    return None if key is None else ids.check_key(key, KEY_HEADER)


async def _key(
    key: Annotated[str | None, Header(alias=KEY_HEADER, description="Makes a repeat of this request harmless.")] = None,
) -> str | None:
    return check_key(key)


RepeatKey = Annotated[str | None, Depends(_key)]


def with_key(asked: dict[str, Any], key: str | None, *, field: str = "idempotency_key") -> dict[str, Any]:
    """Return a request with the key of its header; one in the body too must be the same."""
    if key is None:
        return asked
    if asked.get(field) is not None and asked[field] != key:
        raise errors.RequestInvalid(f"{field}: differs from the header Idempotency-Key.", field=field)
    return {**asked, field: key}
