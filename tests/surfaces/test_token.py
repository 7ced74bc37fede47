"""`ferryman token`, and a server that listens where others can reach it."""

import re

import pytest

from tests.surfaces import ferry


@pytest.mark.contract("S3", "S6")
def test_a_token_can_be_made_listed_and_revoked(database_url: str) -> None:
    def run(*arguments: str) -> ferry.Ran:
        return ferry.run("token", *arguments, url=database_url)

    made = run("create", "ci", "--scope", "write", "--scope", "worker", "--lasts", "90d", "--json")
    shown = run("create", "ada", "--scope", "admin", "--all-tenants")
    again = run("create", "ci")
    listed = run("list", "--json")
    table = run("list", "--all")
    revoked = run("revoke", "ci", "--reason", "lost", "--json")
    missing = run("revoke", "ada")
    none = run("list")

    assert re.fullmatch(r"fm_[0-9a-f]{32}_[0-9a-f]{48}", made.json["text"])
    assert (made.json["token"]["scopes"], made.json["token"]["tenant"]) == (["write", "worker"], "default")
    assert made.json["token"]["expires_at"] is not None
    assert re.fullmatch(r"fm_[0-9a-f]{32}_[0-9a-f]{48}", shown.out.strip())
    assert "shown this once" in shown.err
    assert (again.code, "TOKEN_DUPLICATE" in again.err) == (5, True)
    assert [each["name"] for each in listed.json["tokens"]] == ["ci"]
    assert made.json["text"].rpartition("_")[2] not in listed.out + table.out
    assert "write, worker" in table.out
    assert "ada" in table.out
    assert revoked.json == {"revoked": True}
    assert (missing.code, "TOKEN_NOT_FOUND" in missing.err) == (4, True)
    assert "There are none" in none.err


@pytest.mark.contract("S3", "S6", "K20")
def test_what_is_wrong_is_told_and_no_server_starts_in_the_open_without_tokens(database_url: str) -> None:
    scope = ferry.run("token", "create", "ci", "--scope", "root", url=database_url)
    server = ferry.run("server", "--host", "0.0.0.0", "--port", "0", url=database_url)
    hosts = ferry.run("config", url=database_url, FERRYMAN_HTTP__HOSTS="https://ferry.example.com")

    assert (scope.code, "expected some of read, write, worker, admin" in scope.err) == (2, True)
    assert (server.code, "ferryman token create" in server.err) == (2, True)
    assert (hosts.code, "without a port" in hosts.err) == (2, True)
