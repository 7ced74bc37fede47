"""The head of a request, read once.

Everybody on the way to a route asks for headers by name: who asks, from where, what kind of body. The framework goes through
all of them each time, and makes a new view of them for each that asks; that costs more than what is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive, Scope

HEAD: Final = "ferryman.head"


class Head(Headers):
    """Headers that are found by their name."""

    def __init__(self, raw: Iterable[tuple[bytes, bytes]]) -> None:
        """Read them; of a header that is given twice the first counts, as everywhere."""
        listed = list(raw)
        super().__init__(raw=listed)
        self._first = {name.decode("latin-1"): value.decode("latin-1") for name, value in reversed(listed)}

    def get(self, key: str, default: Any = None) -> Any:
        """Return the first header of a name."""
        return self._first.get(key.lower(), default)

    def __getitem__(self, key: str) -> str:
        """Return the first header of a name; it is there."""
        return self._first[key.lower()]

    def __contains__(self, key: object) -> bool:
        """Say whether there is one."""
        return isinstance(key, str) and key.lower() in self._first

    def getlist(self, key: str) -> list[str]:
        """Return all headers of a name."""
        return super().getlist(key) if key in self else []


class Call(Request):
    """A request whose head is read once, however many ask."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        """Read the head, or find it in the scope, which does not keep the request: a circle is left to the collector."""
        super().__init__(scope, receive)
        found: Head | None = scope.get(HEAD)
        if found is None:
            found = scope[HEAD] = Head(scope["headers"])
        self._found = found

    @property
    def headers(self) -> Head:
        """The headers."""
        return self._found

    async def body(self) -> bytes:
        """Read the body; most come in one piece."""
        pieces: list[bytes] = []
        more = True
        while more:
            message = await self.receive()
            if message["type"] != "http.request":
                raise ClientDisconnect
            pieces.append(message.get("body", b""))
            more = message.get("more_body", False)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)
