"""What comes in: JSON that can be stored, read once.

A body in the form of the sources is checked by the rules of its domain, which name the field and give the code; the framework
only describes it. So it is taken as it came, after the checks that hold for every stored text (depth, size of integers, NUL).
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Header, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError

from ferryman.kernel import errors, ids, payload

JSON = "application/json"
KEY_HEADER = "Idempotency-Key"


async def read(request: Request) -> dict[str, Any]:
    """Return the object that a body holds."""
    kind = request.headers.get("content-type", "")
    if kind != JSON:
        kind = kind.partition(";")[0].strip().lower()
        if kind != JSON and not kind.endswith("+json"):
            raise errors.MediaUnknown(f"Expected {JSON}, got {kind or 'no Content-Type'}.")
    raw = await request.body()
    value = payload.parse(raw, limit=request.app.state.ferryman.settings.http.body_limit, error=errors.RequestInvalid)
    if not isinstance(value, dict):
        raise errors.RequestInvalid("Expected an object.", field="body")
    return value


Body = Annotated[dict[str, Any], Depends(read)]


def asks(shape: type[BaseModel], *, required: bool = True) -> Any:
    """Return the dependency that reads a body of a shape; one that need not be there may be left out."""

    async def given(request: Request) -> BaseModel:
        raw = await request.body()
        if raw or required:
            await read(request)
        try:
            return shape.model_validate_json(raw or b"{}", strict=True)
        except ValidationError as wrong:
            raise RequestValidationError(wrong.errors()) from None

    return Depends(given)


def takes(shape: type[BaseModel], *, required: bool = True) -> dict[str, Any]:
    """Describe a body that is taken as it came, for the OpenAPI document."""
    schema = shape.model_json_schema()
    whole = _whole(schema, schema.pop("$defs", {}))
    return {"requestBody": {"required": required, "content": {JSON: {"schema": whole}}}}


def _whole(schema: Any, parts: dict[str, Any]) -> Any:
    """Return a schema with its parts in their places: it stands alone in the document, where they have no names."""
    if isinstance(schema, list):
        return [_whole(each, parts) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return _whole(parts[schema["$ref"].rpartition("/")[2]], parts)
    return {name: _whole(each, parts) for name, each in schema.items()}


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
