"""Patterns, and whatever else reads a text from outside: none costs more than its length is worth (R7, X10)."""

from __future__ import annotations

import ast
import re
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ferryman.access import rules as access
from ferryman.agents import rules as agents
from ferryman.cli import spelling as shell
from ferryman.commands.rules import types
from ferryman.dashboard import names, spelling
from ferryman.http import doorkeeper
from ferryman.ingest.rules import expression, limits, paging, path, position
from ferryman.kernel import duration, errors, ids, payload, script, setting, telemetry
from ferryman.relays.rules import choice, destination, subject
from ferryman.tasks.rules import cron, keys, queue, rhythm
from tests.unit.ambiguity import Slow, suspects

SOURCES = Path(__file__).parents[2] / "src"
# By another name a pattern would not be found.
RENAMED = re.compile(r"from re import|import re as")
AT_A_PLACE = frozenset({"match", "fullmatch"})
ANYWHERE = frozenset({"search", "findall", "finditer", "sub", "subn", "split"})

# Small at first and in small steps, so that what doubles with each character is met before it takes a day.
SIZES = (8, 12, 16, 20, 24, 28, 32, 64, 128, 256, 512, 1024, 2048)
SOME, LARGE = 256, 16_384
# What is less is not worth a look: a text whose every character is looked at some times takes a tenth of it.
SECONDS = 0.005
# So many times as much as in a shorter text a character may cost: twice is an accident, and a square is a hundred times.
DEARER = 3


def grows(use: Callable[[Any], Any], of: Callable[[int], Any]) -> bool:
    """Say whether texts of a kind cost more for each character the longer they are."""
    taken: dict[int, float] = {}
    for size in SIZES:
        taken[size] = _seconds(use, of(size))
        if _dear(taken, SIZES[0], size):
            return _surely(use, of, SIZES[0], size)
    # Nearly all end here: for eight times as much they took eight times as long.
    if taken[SIZES[-1]] * SOME < 1.5 * taken[SOME] * SIZES[-1]:
        return False
    return _surely(use, of, SOME, LARGE)


def _surely(use: Callable[[Any], Any], of: Callable[[int], Any], short: int, long: int) -> bool:
    """Measure again: one time may be disturbed, and the least of some is what it costs."""
    return _dear({size: min(_seconds(use, of(size)) for _ in range(3)) for size in (short, long)}, short, long)


def _dear(taken: dict[int, float], short: int, long: int) -> bool:
    return taken[long] > SECONDS and taken[long] * short > DEARER * taken[short] * long


def _seconds(use: Callable[[Any], Any], text: Any) -> float:
    """Measure the time of this thread, whatever else the machine does."""
    began = time.thread_time()
    with suppress(errors.FerrymanError, ValueError):
        use(text)
    return time.thread_time() - began


class Pattern(NamedTuple):
    """A pattern of ours, and a method by which it is used."""

    where: str
    pattern: str | bytes
    flags: int
    method: str

    def use(self, text: str) -> None:
        """Read a text by it."""
        compiled: Any = re.compile(self.pattern, self.flags)
        given = text.encode("latin-1") if isinstance(self.pattern, bytes) else text
        said = getattr(compiled, self.method)(*([self.pattern[:0]] if "sub" in self.method else []), given)
        if self.method == "finditer":
            deque(said, maxlen=0)

    def slow(self) -> Slow | None:
        """Return a text that it is slow on; None where none of those that may be is."""
        found = suspects(self.pattern, self.flags, searched=self.method in ANYWHERE)
        return next((each for each in found if grows(self.use, each.of)), None)


def patterns() -> Iterator[Pattern]:
    """Give every pattern that stands in our code, once for each way in which it is used."""
    for file in sorted(SOURCES.rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        if "re." in text:
            yield from _patterns(ast.parse(text), file.relative_to(SOURCES))


def _patterns(tree: ast.Module, file: Path) -> Iterator[Pattern]:
    assigned = (each for each in ast.walk(tree) if isinstance(each, ast.Assign | ast.AnnAssign))
    named = {
        each.value: ast.unparse(each.targets[0] if isinstance(each, ast.Assign) else each.target) for each in assigned
    }
    for call in (each for each in ast.walk(tree) if isinstance(each, ast.Call)):
        of, _, method = ast.unparse(call.func).partition(".")
        if of != "re" or method == "escape":
            continue
        pattern, flags = _given(call, method, file)
        for each in sorted(_methods(tree, named.get(call))) if method == "compile" else [method]:
            yield Pattern(f"{file}:{call.lineno}", pattern, flags, each)


def _given(call: ast.Call, method: str, file: Path) -> tuple[str | bytes, int]:
    """Return a pattern and its flags; one that only a caller knows could not be tried, and fails here."""
    module = import_module(".".join(file.with_suffix("").parts).removesuffix(".__init__"))
    asked = [call.args[0], *(call.args[1:] if method == "compile" else []), *(each.value for each in call.keywords)]
    pattern, *flags = (eval(compile(ast.Expression(each), "pattern", "eval"), vars(module)) for each in asked)
    return pattern, int(flags[0]) if flags else 0


def _methods(tree: ast.Module, name: str | None) -> set[str]:
    """Return the methods of a pattern that are called; one that is handed on may be used in any way."""
    held = [each for each in ast.walk(tree) if isinstance(each, ast.Attribute) and ast.unparse(each.value) == name]
    told = [each for each in ast.walk(tree) if isinstance(each, ast.Name) and each.id == name]
    used = {each.attr for each in held} & (AT_A_PLACE | ANYWHERE)
    return used if len(told) == len(held) + 1 else used | {"fullmatch", "search"}


@pytest.mark.contract("R7")
def test_no_pattern_of_ours_is_slow_on_a_text_chosen_for_it() -> None:
    found = list(patterns())

    assert len({each.where for each in found}) > 50
    assert {each: slow for each in found if (slow := each.slow()) is not None} == {}


@pytest.mark.contract("R7")
def test_every_pattern_that_is_loaded_is_one_of_those_that_are_tried() -> None:
    tried = {each.pattern for each in patterns()}
    modules = [module for name, module in sys.modules.items() if name.partition(".")[0] == "ferryman"]
    loaded = {each.pattern for module in modules for each in vars(module).values() if isinstance(each, re.Pattern)}

    assert len(loaded) > 40
    assert loaded - tried == set()
    assert [file for file in SOURCES.rglob("*.py") if RENAMED.search(file.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize(
    ("pattern", "method"),
    [
        (r"(a+)+$", "match"),
        (r"(a+)+", "fullmatch"),
        (r"(?:a|aa)*b", "match"),
        (r"(?:[a-z]+\d?)*!", "match"),
        (r"(?:a*)*b", "match"),
        (r"\s*([0-9]{1,9})\s*/\s*(.+?)\s*", "fullmatch"),
        (r".*,.*,x", "match"),
        (r"(?=(a+)+!)a", "match"),
        (r"\s+$", "search"),
        (r"<[^>]*>", "finditer"),
        (r"/\*.*?\*/", "sub"),
        (r"(^|//)([^:/@\s]*):(?!//).*@", "sub"),
        (r"\w*_(SERVICE_HOST|SERVICE_PORT(_\w+)?)", "fullmatch"),
        (rb"(\w+)*$", "match"),
    ],
)
def test_a_pattern_that_is_slow_is_found(pattern: str | bytes, method: str) -> None:
    assert Pattern("planted", pattern, re.DOTALL, method).slow() is not None


@pytest.mark.parametrize(
    ("pattern", "method"),
    [
        (r"[A-Za-z0-9_+-]+(?:/[A-Za-z0-9_+-]+)*", "fullmatch"),
        (r"<[^<>]*>", "finditer"),
        (r"(?>a+)+$", "match"),
        (r"(.+)_([0-9a-f]{32})", "fullmatch"),
        (r"^\s+x", "search"),
    ],
)
def test_a_pattern_that_is_not_slow_is_let_pass(pattern: str, method: str) -> None:
    assert Pattern("sound", pattern, 0, method).slow() is None


def headed(text: str) -> dict[str, str]:
    return {"ratelimit": text, "retry-after": text, "date": text}


# Whatever reads a text that somebody outside may have chosen. Lengths are bounded before most of them; here they are not.
READERS: dict[str, Callable[[str], object]] = {
    "a name": partial(ids.check_name, field="name"),
    "a key": partial(ids.check_key, field="key"),
    "a length of time": duration.parse,
    "a rate": queue.read_rate,
    "a cron expression": cron.parse,
    "a time zone": rhythm._find,
    "a declared key": lambda text: keys.declared(limit_key=text),
    "JSON": payload.parse,
    "JSON in a text": lambda text: payload.parse(f'"{text}"'),
    "JSON to be stored": payload.check_text,
    "a value": payload.encode,
    "a token": access.id_of,
    "the name of a host": doorkeeper.is_local,
    "a trace": telemetry.is_traceparent,
    "an id of an agent": agents.is_token,
    "a type": lambda text: (types.normalised(text), types.result_of(text), types.fact_of(text)),
    "an address of a webhook": destination.check_url,
    "kinds of events": choice.check_kinds,
    "a subject": lambda text: subject.read(subject.token(text)),
    "an expression": lambda text: expression.read({text: {text: text}}),
    "a path": lambda text: path.compile_path(text, "path"),
    "a position": position.read,
    "a link": lambda text: paging.linked(text, "next"),
    "a quota": lambda text: limits.quota(headed(text), now=spelling.now()),
    "when to come again": lambda text: limits.retry_after(headed(text), now=spelling.now()),
    "a text on a page": lambda text: (spelling.parted(text), spelling.linked(text), spelling.ticked(text)),
    "JSON on a page": spelling.pretty,
    "an agent on a page": names.agent,
    "a text in a shell": shell.clean,
    "a secret in an address": setting.mask,
    "a variable": setting.is_link,
    "a script": script.split,
}
BEGUN = ("", "1/", '"', "[", "P", "<x>")
AGAIN = (
    *("0", "a", " ", "\n", "/", ":", "@", "<", ">", ";", ",", "=", ".", "_", "-", "'", '"', "\\", "[", "{", "$", "~", "%", "`"),
    *("1s", "1h ", "0.", "//a:", "<x>", ";a=", '<x>;a="', ",r=", "a.", "[0]", '["', '{"a":', "$a$", "/*", "--", "*/2,", "é"),
)  # fmt: skip
ENDED = ("", "\n!")


def chosen() -> Iterable[Slow]:
    """Give texts of many kinds, made of what readers look for."""
    return (Slow(before, again, after) for before, again, after in product(BEGUN, AGAIN, ENDED))


@pytest.mark.contract("R7")
@pytest.mark.parametrize("what", READERS)
def test_who_reads_a_text_from_outside_takes_the_time_that_its_length_is_worth(what: str) -> None:
    assert [each for each in chosen() if grows(READERS[what], each.of)] == []


@pytest.mark.contract("R7")
def test_the_long_name_of_many_parts_is_not_written_anew_for_each() -> None:
    def asked(size: int) -> dict[str, Any]:
        return {"x" * size: {str(n): ["{since}"] for n in range(size // 8)}}

    assert not _surely(expression.read, asked, 25_000, 400_000)
