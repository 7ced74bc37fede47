"""Cut a script into statements, for the few that may not share a transaction with others."""

from __future__ import annotations

import re

# Whatever may hide a semicolon: comments, strings, quoted names, dollar quotes. Block comments do not nest here. What has no
# end goes to the end of the script: PostgreSQL is to say what is wrong with it.
_PIECE = re.compile(
    r"""
      --[^\n]*
    | /\*(?:.*?\*/|.*)
    | [eE]'(?:[^'\\]|\\.|'')*'
    | '(?:[^']|'')*'
    | "(?:[^"]|"")*"
    | (?P<tag>\$(?:[A-Za-z_]\w*)?\$)(?:.*?(?P=tag)|.*)
    | (?P<end>;)
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT = re.compile(r"--[^\n]*|/\*.*?\*/|(?P<unended>/\*.*)", re.DOTALL)


def split(script: str) -> list[str]:
    """Return the statements of a script, without those that are only comments."""
    parts: list[str] = []
    start = 0
    for piece in _PIECE.finditer(script):
        if piece["end"]:
            parts.append(script[start : piece.start()])
            start = piece.end()
    parts.append(script[start:])
    return [part.strip() for part in parts if uncommented(part)]


def uncommented(statement: str) -> str:
    """Return a statement without its comments: what it begins with can be seen then."""
    return _COMMENT.sub(r"\g<unended>", statement).strip()
