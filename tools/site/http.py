"""The reference of HTTP, written from the OpenAPI document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

METHODS = ("get", "post", "put", "patch", "delete")


def page(document: Mapping[str, Any]) -> str:
    """Write every operation: what it does, what it takes, what it answers with, and the scope it needs."""
    parts = [
        "# HTTP",
        "Written from [openapi.json](../openapi.json), which programs read. Errors are problem details (RFC 9457) with a"
        " stable `code`: see [error codes](errors.md).",
    ]
    group = ""
    for path, operations in document["paths"].items():
        for method in METHODS:
            if method in operations:
                named = _group(path, operations[method])
                parts += [f"## {named}"] if named != group else []
                group = named
                parts.append(_operation(path, method, operations[method]))
    return "\n\n".join(parts) + "\n"


def _group(path: str, operation: Mapping[str, Any]) -> str:
    tags = operation.get("tags") or [path.removeprefix("/v1").strip("/").partition("/")[0] or "server"]
    return str(tags[0]).capitalize()


def _operation(path: str, method: str, operation: Mapping[str, Any]) -> str:
    parts = [f"### {method.upper()} {path}"]
    told = operation.get("description") or operation.get("summary")
    if told:
        parts.append(str(told))
    if "x-scope" in operation:
        parts.append(
            f"Needs the scope `{operation['x-scope']}`" + (", for all tenants." if operation.get("x-operator") else ".")
        )
    rows = [
        f"| `{each['name']}` | {each['in']} | {_type(each.get('schema', {}))} | {_told(each)} |"
        for each in operation.get("parameters", ())
    ]
    body = operation.get("requestBody", {}).get("content", {})
    rows += [f"| body | {kind} | {_type(content.get('schema', {}))} | |" for kind, content in body.items()]
    if rows:
        parts.append("\n".join(["| takes | in | as | which is |", "|---|---|---|---|", *rows]))
    answers = [
        f"`{status}` {answer.get('description', '')}".strip()
        for status, answer in operation.get("responses", {}).items()
        if status != "default"
    ]
    if answers:
        parts.append(f"Answers {', '.join(answers).rstrip('.')}.")
    return "\n\n".join(parts)


def _told(parameter: Mapping[str, Any]) -> str:
    words = " ".join(str(parameter.get("description") or "").split()).replace("|", "\\|")
    return f"{words} (needed)".strip() if parameter.get("required") and parameter["in"] != "path" else words


def _type(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema:
        return " or ".join(_type(each) for each in schema["anyOf"] if each.get("type") != "null")
    kind = str(schema.get("format") or schema.get("type") or "anything")
    if kind == "array":
        return f"list of {_type(schema.get('items', {}))}"
    return kind
