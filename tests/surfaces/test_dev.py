"""`ferryman dev`: everything in one process."""

import asyncio
import json
import signal
import socket
import urllib.request
from dataclasses import replace
from pathlib import Path

import pytest

from ferryman import Ferryman
from ferryman.cli import boundary, web
from tests.patience import PATIENCE_SECONDS
from tests.surfaces import ferry


def ask(url: str) -> int:
    with urllib.request.urlopen(url, timeout=PATIENCE_SECONDS) as answer:
        status: int = answer.status
        return status


@pytest.mark.contract("S1", "S3")
def test_it_serves_http_and_the_dashboard_beside_the_worker(database_url: str) -> None:
    with ferry.running("dev", "--app", "shop:app", "--json", url=database_url) as dev:
        told = json.loads(dev.stdout.readline())
        assert [ask(told["url"] + path) for path in ("/healthz", "/", "/v1/tasks")] == [200, 200, 200]
        ran = ferry.run("task", "create", "greet", '{"name": "Ada"}', "--wait", url=database_url)
        dev.send_signal(signal.SIGINT)
        code, err = dev.wait(PATIENCE_SECONDS), dev.stderr.read()

    assert code == 0
    assert "goodbye" in err
    assert ran.out == '"Hello, Ada"\n'
    assert told["handlers"] == ["cross", "fall", "greet"]


@pytest.mark.contract("S1", "S3")
async def test_where_nobody_asked_for_a_port_the_next_free_one_is_taken(database_url: str) -> None:
    app = Ferryman(database_url)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        app.settings = replace(app.settings, http=replace(app.settings.http, port=port))

        async with app, web.beside(app) as served:
            assert served is not None
            assert port < served.port < port + web.TRIES
            assert await asyncio.to_thread(ask, f"{served.url}/healthz") == 200


@pytest.mark.parametrize(
    ("words", "named", "hint"),
    [
        (["--demo"], False, "`ferryman demo`"),
        (["--demo"], True, "`ferryman demo --keep`"),
        (["--demo", "--app", "shop:app"], True, "leave --app out"),
        (["--port", "PORT"], True, "http.port: PORT on 127.0.0.1 cannot be used"),
        (["--port", "99999"], True, "65535"),
        (["--port", "some"], True, "--port"),
    ],
)
def test_what_cannot_be_done_is_told_in_one_line(
    words: list[str], named: bool, hint: str, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FERRYMAN_DATABASE_URL", database_url if named else "")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        code = boundary.run(["dev", *(port if word == "PORT" else word for word in words)])

    said = capfd.readouterr()
    assert (code, said.out, len(said.err.splitlines())) == (2, "", 1)
    assert hint.replace("PORT", port) in said.err
    assert list(tmp_path.iterdir()) == []
