"""The OpenAPI document says of every operation what it is, what it takes, what it answers and who may."""

from typing import Any

import pytest

from ferryman import Ferryman
from ferryman.http import problems, refusals
from ferryman.kernel import errors
from tests.http.domains.fleet import document

TAGS = {"agents", "turns", "cards", "batches", "commands", "ingest", "webhooks", "relays"}


def operations(app: Ferryman) -> dict[str, dict[str, Any]]:
    return {
        f"{method.upper()} {path}": operation
        for path, methods in document(app)["paths"].items()
        for method, operation in methods.items()
        if TAGS & set(operation["tags"])
    }


def references(node: Any) -> list[str]:
    if isinstance(node, dict):
        here = [node["$ref"]] if isinstance(node.get("$ref"), str) else []
        return here + [each for part in node.values() for each in references(part)]
    return [each for part in node for each in references(part)] if isinstance(node, list) else []


@pytest.mark.contract("S4")
def test_every_operation_says_what_it_is_takes_and_answers(app: Ferryman) -> None:
    found = operations(app)
    assert found
    for name, operation in found.items():
        assert operation["summary"], name
        assert operation["description"].endswith((".", ").")), name
        assert operation["x-scope"] in {"read", "write", "admin"}, name
        good = [told for status, told in operation["responses"].items() if status.startswith("2")]
        assert good, name
        assert all(body["schema"] for told in good for body in told["content"].values()), name
        for body in operation.get("requestBody", {}).get("content", {}).values():
            assert body["schema"]["properties"], name


@pytest.mark.contract("S4")
def test_every_reference_of_the_document_leads_somewhere(app: Ferryman) -> None:
    for reference in references(document(app)):
        place: Any = document(app)
        for part in reference.removeprefix("#/").split("/"):
            place = place[part]


@pytest.mark.contract("S6")
def test_who_reads_may_not_write_and_secrets_are_for_those_who_rule(app: Ferryman) -> None:
    for name, operation in operations(app).items():
        method, path = name.split()
        secret = path.endswith(("/secret", "/rotate")) or name == "POST /v1/webhooks"
        for_all = path.startswith("/v1/relays") or path == "/v1/ingest/gates"
        ruled = secret or for_all or path.endswith("/rewind")
        expected = "admin" if ruled else "read" if method == "GET" else "write"
        assert (operation["x-scope"], operation["x-operator"]) == (expected, for_all), name


# Refused before an operation is found, by the program's own command line, in the course of the work and not at the door, or by
# the forms of pages.
ELSEWHERE = {
    errors.RouteUnknown,
    errors.MethodRefused,
    errors.UsageInvalid,
    errors.TaskWaitTooLong,
    errors.CapabilityUnknown,
    errors.TenantChanged,
}


@pytest.mark.contract("K20", "S4")
def test_every_code_with_a_status_is_declared_by_an_operation_and_nothing_is_declared_for_none(app: Ferryman) -> None:
    paths = document(app)["paths"]
    told = {
        code
        for path in paths.values()
        for each in path.values()
        for codes in each["x-problems"].values()
        for code in codes
    }
    kept = {each.code for each in problems.STATUS if each not in ELSEWHERE and each is not errors.InvalidTransition}
    assert kept - told == set()
    assert set(refusals.RAISED) <= {f"{method.upper()} {path}" for path, found in paths.items() for method in found}
    named = {each["name"] for path in paths.values() for told in path.values() for each in told.get("parameters", ())}
    assert set(refusals.NAMED) <= named
    create = paths["/v1/tasks"]["post"]["x-problems"]
    assert "TASK_DUPLICATE" in create["409"]
    assert create["401"] == ["UNAUTHENTICATED"]
