"""Every operation of the server, read from its OpenAPI document: whoever adds a route adds it here without knowing."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from urllib.parse import quote
from uuid import UUID

METHODS = ("get", "post", "put", "patch", "delete")
NOBODY = UUID("01900000-0000-7000-8000-00000000dead")
JSON = "application/json"
DEEPEST = 4

Place = tuple[str | int, ...]


class Operation(NamedTuple):
    """One method of one path."""

    method: str
    path: str
    scope: str | None
    operator: bool
    parameters: list[dict[str, Any]]
    body: dict[str, Any] | None

    @property
    def name(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def path_names(self) -> list[str]:
        return [each["name"] for each in self.parameters if each["in"] == "path"]

    def target(self, value: Callable[[dict[str, Any]], str] | None = None) -> str:
        """Return an address; each place in the path is filled by `value`, or with somebody who does not exist."""
        filled = self.path
        for each in self.parameters:
            if each["in"] == "path":
                given = value(each) if value is not None else _nobody(each.get("schema", {}))
                filled = filled.replace("{" + each["name"] + "}", quote(given, safe=""))
        needed = [each for each in self.parameters if each["in"] == "query" and each.get("required")]
        query = "&".join(f"{each['name']}={quote(str(example(each.get('schema', {}))))}" for each in needed)
        return f"{filled}?{query}" if query else filled

    def example(self) -> Any:
        """Return a body that fits, or None where none is taken."""
        return None if self.body is None else example(self.body)


def _nobody(schema: dict[str, Any]) -> str:
    made = example(schema)
    return str(made) if not isinstance(made, str) or schema.get("enum") else str(NOBODY)


def operations(document: dict[str, Any]) -> list[Operation]:
    """Return them all."""
    found = []
    for path, methods in document["paths"].items():
        for method in METHODS:
            if (said := methods.get(method)) is None:
                continue
            body = said.get("requestBody", {}).get("content", {}).get(JSON, {}).get("schema")
            parameters = [
                resolve(each, document) for each in (*methods.get("parameters", ()), *said.get("parameters", ()))
            ]
            found.append(
                Operation(
                    method.upper(), path, said.get("x-scope"), bool(said.get("x-operator")), parameters,
                    None if body is None else resolve(body, document),
                )
            )  # fmt: skip
    return found


def resolve(schema: Any, document: dict[str, Any], local: dict[str, Any] | None = None, depth: int = 0) -> Any:
    """Return a schema without references; what refers to itself ends after some levels."""
    if isinstance(schema, list):
        return [resolve(each, document, local, depth) for each in schema]
    if not isinstance(schema, dict):
        return schema
    local = {**(local or {}), **schema.get("$defs", {})}
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        known = {**document.get("components", {}).get("schemas", {}), **local}
        return {} if depth > DEEPEST or name not in known else resolve(known[name], document, local, depth + 1)
    return {key: resolve(value, document, local, depth) for key, value in schema.items() if key != "$defs"}


def example(schema: dict[str, Any], *, whole: bool = False) -> Any:
    """Return a value that fits a schema: with all its fields if `whole`, else with those that it must have."""
    for key in ("const", "default"):
        if schema.get(key) is not None:
            return copy.deepcopy(schema[key])
    if schema.get("enum"):
        return schema["enum"][0]
    for key in ("anyOf", "oneOf", "allOf"):
        if schema.get(key):
            chosen = [each for each in schema[key] if each.get("type") != "null"]
            return example(chosen[0], whole=whole) if chosen else None
    return _of_type(schema, whole)


def _of_type(schema: dict[str, Any], whole: bool) -> Any:
    match schema.get("type"):
        case "object":
            fields = schema.get("properties", {})
            wanted = fields if whole else schema.get("required", ())
            return {name: example(fields.get(name, {}), whole=whole) for name in wanted}
        case "array":
            return [example(schema.get("items", {}), whole=whole)] if whole or schema.get("minItems") else []
        case "string":
            return {"uuid": str(NOBODY), "date-time": "2030-01-01T00:00:00Z"}.get(schema.get("format", ""), "greet")
        case "integer" | "number":
            return schema.get("minimum", schema.get("exclusiveMinimum", 0) + 1)
        case "boolean":
            return False
        case _:
            return None


def texts(value: Any, at: Place = ()) -> Iterator[Place]:
    """Give the place of each text in a body."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from texts(inner, (*at, name))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from texts(inner, (*at, number))
    elif isinstance(value, str) or value is None:
        yield at


def places(value: Any, at: Place = ()) -> Iterator[Place]:
    """Give every place in a body."""
    yield at
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, each in inner:
        yield from places(each, (*at, step))


def put(body: Any, at: Place, value: Any) -> Any:
    """Return a body with another value at a place."""
    if not at:
        return value
    changed = copy.deepcopy(body)
    inner: Any = changed
    for step in at[:-1]:
        inner = _inside(inner, step)
    if isinstance(inner, dict) or (isinstance(inner, list) and isinstance(at[-1], int) and at[-1] < len(inner)):
        here: Any = inner
        here[at[-1]] = value
    return changed


def _inside(value: Any, step: str | int) -> Any:
    try:
        return value[step]
    except (TypeError, KeyError, IndexError):
        return value  # another value was put here before
