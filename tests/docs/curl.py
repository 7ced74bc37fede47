"""`$ curl …` of a console block, asked of a server of the page's own app; each must be answered with what is no error.

`$ NAME=$(curl … | jq -r .field)` keeps a field of an answer, and `$NAME` stands for it later on the page, as in a shell.
"""

from __future__ import annotations

import re
import shlex
from typing import Any

import aiohttp

from ferryman import Ferryman
from ferryman.http.serving import serving

PROMPT = "$ "
ADDRESS = "http://127.0.0.1:8420"
KEPT = re.compile(r"^(?P<name>[A-Z]+)=\$\((?P<command>.*?) \| jq -r (?P<path>\.\S+)\)$", re.DOTALL)
FLAGS = {"-X": "method", "-H": "header", "--json": "data"}


def commands(code: str) -> list[str]:
    """Return the commands of a block that begin with curl, or keep what it answers."""
    joined = code.replace("\\\n", " ")
    typed = [line.removeprefix(PROMPT) for line in joined.splitlines() if line.startswith(PROMPT)]
    return [each for each in typed if each.startswith("curl ") or KEPT.match(each)]


async def type_in(code: str, names: dict[str, Any]) -> None:
    """Run the commands of a block, with a worker beside the server."""
    app, kept = names["app"], names.setdefault("$", {})
    assert isinstance(app, Ferryman)
    async with app, app.worker(), serving(app, guard=None, port=0) as served, aiohttp.ClientSession() as session:
        for command in commands(code):
            found = KEPT.match(command)
            answer = await _ask(found["command"] if found else command, session, served.url, kept)
            if found:
                for part in found["path"].strip(".").split("."):
                    answer = answer[part]
                kept[found["name"]] = str(answer)


async def _ask(command: str, session: aiohttp.ClientSession, url: str, kept: dict[str, str]) -> Any:
    for name, value in kept.items():
        command = command.replace(f"${name}", value)
    given: dict[str, list[str]] = {"method": [], "header": [], "data": [], "where": []}
    words = iter(shlex.split(command)[1:])
    for word in words:
        if word in FLAGS:
            given[FLAGS[word]].append(next(words))
        else:
            given["where"].append(word)
    [where] = given["where"]
    headers = dict(each.split(": ", 1) for each in given["header"])
    data = given["data"][0].encode() if given["data"] else None
    if data is not None:
        headers["Content-Type"] = "application/json"
    method = given["method"][0] if given["method"] else "GET" if data is None else "POST"
    assert where.startswith(ADDRESS), f"{command}: expected {ADDRESS}"
    async with session.request(method, where.replace(ADDRESS, url), data=data, headers=headers) as answer:
        text = await answer.text()
        assert answer.status < 400, f"{command}\n{answer.status} {text}"
        return await answer.json() if answer.content_type == "application/json" else text
