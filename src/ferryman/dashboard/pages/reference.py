"""The reference of the HTTP interface, made from its own description (OpenAPI)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from fastapi import Request, Response

from ferryman.dashboard.page import pages, render
from ferryman.http.callers import Reading

router = pages()

METHODS = ("get", "post", "put", "patch", "delete")


@dataclass(frozen=True)
class Field:
    """A parameter or a field of a body: its name, its type in words, whether it must be given, and what it is."""

    name: str
    kind: str
    required: bool
    says: str


@dataclass(frozen=True)
class Operation:
    """One thing that can be asked."""

    method: str
    path: str
    group: str
    says: str
    scope: str
    parameters: tuple[Field, ...]
    body: tuple[Field, ...]
    answers: tuple[tuple[str, str], ...]
    problems: tuple[tuple[str, str], ...]

    @property
    def anchor(self) -> str:
        """A name for it within the page."""
        return f"{self.method}{self.path}".replace("/", "-").replace("{", "").replace("}", "")


@router.get("/docs")
async def docs(request: Request, visit: Reading) -> Response:
    """Show what can be asked over HTTP."""
    document = request.app.openapi()
    found = sorted(operations(document), key=lambda each: (each.group, each.path, METHODS.index(each.method)))
    groups = [(name, list(some)) for name, some in groupby(found, key=lambda each: each.group)]
    return render(request, visit, "docs.html", here="/docs", groups=groups, version=document["info"]["version"])


def operations(document: Mapping[str, Any]) -> Iterator[Operation]:
    """Give the operations of a description."""
    for path, item in document["paths"].items():
        for method in METHODS:
            if (told := item.get(method)) is not None:
                yield Operation(
                    method=method,
                    path=path,
                    group=next(iter(told.get("tags", ())), "other"),
                    says=told.get("description") or told.get("summary", ""),
                    scope=told.get("x-scope", ""),
                    parameters=tuple(_parameter(document, each) for each in told.get("parameters", ())),
                    body=tuple(_body(document, told)),
                    answers=tuple(
                        (status, answer.get("description", ""))
                        for status, answer in told["responses"].items()
                        if status != "default"
                    ),
                    problems=tuple((status, ", ".join(codes)) for status, codes in told["x-problems"].items()),
                )


def _parameter(document: Mapping[str, Any], told: Mapping[str, Any]) -> Field:
    schema = told.get("schema", {})
    says = told.get("description") or schema.get("description", "")
    return Field(told["name"], f"{words(document, schema)}, {told['in']}", told.get("required", False), says)


def _body(document: Mapping[str, Any], told: Mapping[str, Any]) -> Iterator[Field]:
    for content in told.get("requestBody", {}).get("content", {}).values():
        schema = _found(document, content.get("schema", {}))
        for each in schema.get("anyOf", ()):
            schema = _found(document, each) if "$ref" in each else schema
        required = schema.get("required", ())
        for name, field in schema.get("properties", {}).items():
            yield Field(name, words(document, field), name in required, field.get("description", ""))


def words(document: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    """Return a type in words."""
    if "$ref" in schema:
        found = _found(document, schema)
        return " or ".join(map(str, found["enum"])) if "enum" in found else schema["$ref"].rsplit("/", 1)[-1]
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(words(document, each) for each in schema["anyOf"] if each != {"type": "null"}))
    if "enum" in schema:
        return " or ".join(map(str, schema["enum"]))
    if schema.get("type") == "array":
        return f"list of {words(document, schema.get('items', {}))}"
    return str(schema.get("format") or schema.get("type") or "anything")


def _found(document: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    if "$ref" not in schema:
        return schema
    name = schema["$ref"].rsplit("/", 1)[-1]
    found: Mapping[str, Any] = document["components"]["schemas"].get(name, {})
    return found
