"""Who is let in: the open server of this machine, tokens, and people who signed in (S6)."""

from collections.abc import Sequence
from urllib.parse import urlencode

import pytest

from ferryman import Ferryman
from ferryman.app.tokens import ALL
from ferryman.http import doorkeeper
from ferryman.http.doorkeeper import is_local
from ferryman.http.routes.session import local
from ferryman.http.server import make
from ferryman.http.serving import serving
from ferryman.kernel import errors
from tests.access.conftest import MakeApp, operator
from tests.access.wire import HOST, Reply, Wire

GREET = {"name": "greet", "payload": {"name": "Ada"}}
FORM = "application/x-www-form-urlencoded"


async def send_form(wire: Wire, target: str, headers: Sequence[tuple[str, str]] = (), **fields: str) -> Reply:
    return await wire.post(target, urlencode(fields).encode(), headers=headers, content_type=FORM)


# The open server


@pytest.mark.contract("S6")
@pytest.mark.parametrize(
    ("host", "ours"),
    [
        ("localhost", True), ("localhost:8420", True), ("LOCALHOST:1", True), ("127.0.0.1:8420", True), ("127.1.2.3", True),
        ("[::1]:8420", True), ("app.localhost", True), ("evil.example", False), ("localhost.evil.example", False),
        ("127.0.0.1.evil.example", False), ("192.168.1.5:8420", False), ("", False), ("evil.example:8420", False),
        ("[::2]", False), ("0.0.0.0", False), ("2130706433", False), ("evil.example#localhost", False),
    ],
)  # fmt: skip
def test_names_of_this_machine_are_known(host: str, ours: bool) -> None:
    assert is_local(host) is ours


@pytest.mark.contract("S6")
async def test_without_tokens_whoever_is_on_this_machine_is_the_operator(wire: Wire) -> None:
    assert (await wire.get("/v1/tasks")).status == 200
    assert (await wire.get("/metrics")).status == 200
    assert (await wire.post("/v1/tasks", GREET)).status == 201


@pytest.mark.contract("S6")
async def test_an_open_server_answers_to_no_foreign_name_and_through_no_proxy(wire: Wire) -> None:
    rebound = await wire.get("/v1/tasks", host="evil.example:8420")
    proxied = await wire.get("/v1/tasks", x_forwarded_for="203.0.113.9")

    assert (rebound.status, rebound.code) == (421, "HOST_REFUSED")
    assert (proxied.status, proxied.code) == (421, "HOST_REFUSED")
    assert "evil.example" in rebound.json["message"]


ORIGINS: list[tuple[dict[str, str], int]] = [
    ({"origin": f"http://{HOST}", "sec_fetch_site": "same-origin"}, 201),
    ({"origin": f"http://{HOST}"}, 201),
    ({}, 201),
    ({"sec_fetch_site": "none"}, 201),
    ({"origin": "http://evil.example"}, 403),
    ({"origin": "null"}, 403),
    ({"origin": "http://localhost:9999"}, 403),
    ({"sec_fetch_site": "cross-site"}, 403),
    ({"sec_fetch_site": "same-site"}, 403),
    ({"origin": f"http://{HOST}", "sec_fetch_site": "cross-site"}, 403),
    ({"origin": "http://["}, 403),
]


@pytest.mark.contract("S6")
async def test_an_open_server_changes_nothing_for_pages_of_other_sites(app: Ferryman, wire: Wire) -> None:
    for headers, status in ORIGINS:
        assert (await wire.post("/v1/tasks", GREET, **headers)).status == status, headers

    assert len(await app.tasks.list()) == 4


@pytest.mark.contract("S6")
async def test_a_form_needs_the_word_of_our_pages_also_on_an_open_server(app: Ferryman, wire: Wire) -> None:
    made = await app.tasks.create("greet", {"name": "Ada"})

    for kind in (FORM, "multipart/form-data; boundary=x", "text/plain"):
        refused = await wire.post(f"/v1/tasks/{made.id}/retry", b"", content_type=kind)
        assert (refused.status, refused.code) == (403, "FORBIDDEN")


# Tokens


@pytest.mark.contract("S6")
async def test_the_first_token_closes_the_server_of_this_machine_too(app: Ferryman, wire: Wire) -> None:
    assert (await wire.get("/v1/tasks")).status == 200
    token = await operator(app)

    refused = await wire.get("/v1/tasks")

    assert (refused.status, refused.code, refused.header("www-authenticate")) == (401, "UNAUTHENTICATED", "Bearer")
    assert (await wire.of(token).get("/v1/tasks")).status == 200
    await app.tokens.revoke("root", tenant=ALL)
    assert (await wire.of(token).get("/v1/tasks")).status == 401
    assert (await wire.get("/v1/tasks")).status == 200


@pytest.mark.contract("S6")
async def test_a_header_that_is_no_token_is_refused_also_on_an_open_server(wire: Wire) -> None:
    for given in ("Basic cm9vdDpyb290", "Bearer", "Bearer ", "fm_x_y", "bearer fm_x_y", "Bearer null", "Bearer \xff"):
        assert (await wire.get("/v1/tasks", authorization=given)).status == 401, given


@pytest.mark.contract("S6")
async def test_two_tokens_at_once_and_one_in_the_address_are_none(app: Ferryman, wire: Wire) -> None:
    token = await operator(app)
    twice = [("authorization", f"Bearer {token}"), ("authorization", f"Bearer {token}")]

    assert (await wire.ask("GET", "/v1/tasks", headers=twice)).status == 401
    assert (await wire.get(f"/v1/tasks?token={token}&access_token={token}")).status == 401
    assert (await wire.get("/v1/tasks", authorization=f"bearer   {token} ")).status == 200


@pytest.mark.contract("S6", "K12")
async def test_a_token_serves_its_tenant_and_an_operators_whichever_it_names(app: Ferryman, wire: Wire) -> None:
    await app.of("acme").tasks.create("greet", {"name": "Ada"})
    acme = wire.of((await app.tokens.create("a", scopes="write", tenant="acme")).text)
    rival = wire.of((await app.tokens.create("r", scopes="admin", tenant="rival")).text)
    root = wire.of(await operator(app))

    assert len((await acme.get("/v1/tasks")).json["items"]) == 1
    assert (await rival.get("/v1/tasks")).json["items"] == []
    assert (await rival.get("/v1/tasks", ferryman_tenant="acme")).status == 403
    assert (await root.get("/v1/tasks")).json["items"] == []
    assert len((await root.get("/v1/tasks", ferryman_tenant="acme")).json["items"]) == 1
    assert (await root.get("/v1/tasks", ferryman_tenant="*")).status == 422


@pytest.mark.contract("S6")
async def test_who_brings_many_wrong_tokens_is_slowed_down_and_the_others_are_not(
    app: Ferryman, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doorkeeper, "WRONG_A_SECOND", 0.001)
    monkeypatch.setattr(doorkeeper, "WRONG_AT_ONCE", 5)
    token = await operator(app)
    wire = Wire(make(app))
    known, stranger = wire.of(token), Wire(wire.web, client="203.0.113.9")
    assert (await known.get("/v1/tasks")).status == 200

    said = [await wire.of(f"fm_{n:032x}_{'0' * 48}").get("/v1/tasks") for n in range(6)]

    assert [each.status for each in said] == [401] * 5 + [429]
    assert said[-1].code == "RATE_EXCEEDED"
    assert int(said[-1].header("retry-after") or 0) >= 1
    assert (await known.get("/v1/tasks")).status == 200
    assert (await stranger.of(token).get("/v1/tasks")).status == 200
    assert (await wire.post("/login", {"token": token})).status == 429


@pytest.mark.contract("S6")
async def test_while_the_database_is_away_nobody_is_let_in_who_was_not_known(app: Ferryman, wire: Wire) -> None:
    token = await operator(app)
    assert (await wire.of(token).get("/v1/tokens/nobody")).status == 422
    await app.database.close()

    kept = await wire.of(token).get("/v1/tokens/nobody")
    app.tokens.known.forget()
    unknown = await wire.of(token).get("/v1/tasks")

    assert kept.status == 422
    assert unknown.status in {500, 503}
    assert (await wire.get("/healthz")).status == 200


# People


@pytest.mark.contract("S6")
async def test_somebody_signs_in_acts_and_signs_out(app: Ferryman, wire: Wire) -> None:
    token = await operator(app)
    begun = await send_form(wire, "/login", token=f" {token} ", to="/tasks?state=failed")
    assert (begun.status, begun.header("location")) == (303, "/tasks?state=failed")
    said = begun.header("set-cookie") or ""
    assert {"httponly", "samesite=strict", "path=/", "max-age=43200"} <= {
        each.strip().lower() for each in said.split(";")
    }
    assert "secure" not in said.lower()
    assert token not in said

    cookie = begun.cookie
    csrf = (await wire.post("/login", {"token": token})).json["csrf"]
    other = (await wire.post("/login", {"token": token})).cookie
    assert (await wire.get("/v1/tasks", cookie=cookie)).status == 200
    bare = await wire.post("/v1/tasks", GREET, cookie=cookie)
    assert (bare.status, bare.code, bare.json["details"]) == (403, "FORBIDDEN", {"field": "csrf"})
    assert (await wire.post("/v1/tasks", GREET, cookie=cookie, x_csrf_token=csrf)).status == 403

    from ferryman.access import rules

    csrf = rules.csrf(cookie.partition("=")[2])
    assert (await wire.post("/v1/tasks", GREET, cookie=cookie, x_csrf_token=csrf)).status == 201
    made = (await app.tasks.list())[0]
    assert (await send_form(wire, f"/v1/tasks/{made.id}/retry", [("cookie", cookie)], csrf=csrf)).status == 200
    assert (await send_form(wire, f"/v1/tasks/{made.id}/retry", [("cookie", cookie)], csrf="x")).status == 403
    foreign = {"origin": "http://evil.example"}
    assert (await wire.post("/v1/tasks", GREET, cookie=cookie, x_csrf_token=csrf, **foreign)).status == 403

    assert (await send_form(wire, "/logout", [("cookie", cookie)])).status == 403
    left = await send_form(wire, "/logout", [("cookie", cookie)], csrf=csrf)
    assert (left.status, left.header("location")) == (303, "/login")
    assert 'ferryman_session=""' in (left.header("set-cookie") or "")
    assert (await wire.get("/v1/tasks", cookie=cookie)).status == 401
    assert (await wire.get("/v1/tasks", cookie=other)).status == 200
    await app.tokens.revoke("root", tenant=ALL)
    assert (await wire.get("/metrics", cookie=other, host="evil.example")).status == 421


@pytest.mark.contract("S6")
async def test_a_wrong_token_signs_nobody_in(app: Ferryman, wire: Wire) -> None:
    await operator(app)

    formed = await send_form(wire, "/login", token="fm_wrong", to="//evil.example/x")
    told = await wire.post("/login", {"token": 7})
    foreign = await send_form(wire, "/login", [("origin", "http://evil.example")], token="fm_wrong")

    assert (formed.status, formed.header("location")) == (303, "/login?failed=1&to=%2F")
    assert formed.header("set-cookie") is None
    assert (told.status, told.code) == (401, "UNAUTHENTICATED")
    assert foreign.status == 403
    assert (await wire.post("/logout", b"", content_type=FORM)).status == 303


@pytest.mark.contract("S6")
@pytest.mark.parametrize(
    "to",
    ["//evil.example", "https://evil.example", "/\\evil.example", "evil", "", "/a\r\nSet-Cookie: x=1", "/\t/evil.example", None,
     7, "javascript:alert(1)", "/\u2028", "///evil.example", "/[" + "x" * 9],
)  # fmt: skip
def test_the_way_on_leads_nowhere_else(to: object) -> None:
    assert local(to) in {"/", "/[xxxxxxxxx"}
    assert local("/tasks/7?x=1#top") == "/tasks/7?x=1#top"


@pytest.mark.contract("S6")
async def test_a_cookie_is_secure_where_the_browser_came_by_https(app: Ferryman, wire: Wire) -> None:
    token = await operator(app)

    class Tls:
        async def __call__(self, scope: dict[str, object], receive: object, send: object) -> None:
            scope["scheme"] = "https"
            await wire.web(scope, receive, send)  # type: ignore[arg-type]

    begun = await Wire(Tls()).post("/login", {"token": token})  # type: ignore[arg-type]

    assert "secure" in (begun.header("set-cookie") or "").lower()


@pytest.mark.contract("S6")
async def test_a_browser_without_a_session_is_led_to_the_login(app: Ferryman, wire: Wire) -> None:
    await operator(app)
    page = {"accept": "text/html,application/xhtml+xml"}

    led = await wire.get("/v1/tasks?state=failed&name=a%20b", **page)
    posted = await wire.post("/v1/tasks", GREET, **page)

    assert (led.status, led.header("location")) == (303, "/login?to=%2Fv1%2Ftasks%3Fstate%3Dfailed%26name%3Da%2520b")
    assert (posted.status, posted.header("location")) == (303, "/login")
    assert (await wire.get("/v1/tasks", accept="application/json")).status == 401
    assert (await wire.get("/", ferryman_part="1", **page)).status == 401


@pytest.mark.contract("S6")
async def test_the_names_that_a_server_answers_to_can_be_told(make_app: MakeApp) -> None:
    app = await make_app(doorbell="none", http={"hosts": "ferry.example.com,[fd00::1]"})
    wire = Wire(make(app), token=await operator(app))

    assert (await wire.get("/v1/tasks", host="Ferry.Example.Com:443")).status == 200
    assert (await wire.get("/v1/tasks", host="[fd00::1]:8420")).status == 200
    assert (await wire.get("/v1/tasks", host="evil.example")).status == 421


# Where it listens


@pytest.mark.contract("S6")
async def test_beyond_this_machine_nothing_starts_without_a_token_that_can_be_used(app: Ferryman) -> None:
    async def start() -> None:
        async with serving(app, host="0.0.0.0", port=0):
            pass

    with pytest.raises(errors.SettingsInvalid, match="no tokens"):
        await start()
    made = await app.tokens.create("brief", lasts=60)
    await start()
    await app.tokens.revoke(made.token.id)
    with pytest.raises(errors.SettingsInvalid, match="no tokens"):
        await start()


@pytest.mark.contract("S6")
async def test_beyond_this_machine_a_server_whose_tokens_are_all_revoked_stays_closed(app: Ferryman) -> None:
    from ferryman.http.doorkeeper import Doorkeeper

    wire = Wire(make(app, guard=Doorkeeper(app, here=False)))
    assert (await wire.get("/v1/tasks")).status == 401
