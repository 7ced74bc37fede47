"""R3: a life with a wrong clock has one for all that the product reads of the wall."""

import ast
import json
import subprocess
import sys
from importlib import resources
from pathlib import Path

import pytest

from chaos import clock

SOURCE = Path(str(resources.files("ferryman")))
# Calls that read the wall, and names that do so when they are imported by themselves.
CALLS = {
    "time": {"time", "time_ns", "localtime", "gmtime", "ctime", "strftime", "clock_gettime", "clock_gettime_ns"},
    "datetime": {"now", "utcnow", "today"},
    "date": {"today"},
    "uuid": {"uuid1", "uuid6", "uuid7"},
}
NAMES = {"uuid1", "uuid6", "uuid7", *CALLS["time"]}
# No process of a run shows anything to people, or is a test.
APART = ("ferryman.cli.", "ferryman.dashboard.", "ferryman.testing.")


def readers() -> set[tuple[str, str]]:
    """Find which modules read the wall, and by which name."""
    found = set()
    for file in sorted(SOURCE.rglob("*.py")):
        path = file.relative_to(SOURCE.parent).with_suffix("")
        module = ".".join(part for part in path.parts if part != "__init__")
        found |= {(module, name) for name in reads(ast.parse(file.read_text(encoding="utf-8")))}
    return found


def reads(tree: ast.AST) -> set[str]:
    """Give the names by which a module reads the wall; one under another name than its own is that other one."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            owner = node.value.attr if isinstance(node.value, ast.Attribute) else getattr(node.value, "id", "")
            if node.attr in CALLS.get(owner, ()):
                found.add(owner)
        elif isinstance(node, ast.ImportFrom) and node.module in ("time", "uuid", "uuid_utils", "uuid_utils.compat"):
            found |= {each.asname or each.name for each in node.names if each.name in NAMES}
    return found


@pytest.mark.contract("R3")
def test_every_place_where_the_product_reads_the_wall_can_be_wrong() -> None:
    assert {each for each in readers() if not each[0].startswith(APART)} == set(clock.READERS.items())


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("at = datetime.now(UTC)", "datetime"),
        ("at = datetime.datetime.utcnow()", "datetime"),
        ("default = field(default_factory=time.time)", "time"),
        ("from time import time_ns as wall", "wall"),
        ("from uuid import uuid7", "uuid7"),
        ("day = date.today()", "date"),
    ],
)
def test_a_new_reader_would_be_found(text: str, name: str) -> None:
    assert reads(ast.parse(text)) == {name}
    assert reads(ast.parse("import time\nnow = time.monotonic()\nat = datetime.fromisoformat(text)")) == set()


ASK = """
import json, sys, time
from datetime import UTC, datetime
from chaos import clock
from ferryman.ingest.work import gate
from ferryman.kernel import ids
from ferryman.relays import webhook
clock.set_wrong(float(sys.argv[1]))
first, second = ids.new_id(), ids.new_id()
said = {
    "gate": (gate.datetime.now(UTC) - datetime.now(UTC)).total_seconds(), "stamp": webhook.time.time() - time.time(),
    "id": (first.int >> 80) / 1000 - time.time(), "order": first < second, "version": first.version,
    "monotonic": abs(webhook.time.monotonic() - time.monotonic()) < 1,
}
print(json.dumps(said))
"""


@pytest.mark.contract("R3")
@pytest.mark.parametrize("seconds", [0.0, -3600.0, 86_400.0])
def test_a_wrong_clock_is_wrong_for_quotas_stamps_and_ids(seconds: float) -> None:
    asked = [sys.executable, "-c", ASK, str(seconds)]
    ended = subprocess.run(asked, cwd=SOURCE.parents[1], capture_output=True, text=True, timeout=60, check=True)

    said = json.loads(ended.stdout)
    assert [said[what] for what in ("gate", "stamp", "id")] == [pytest.approx(seconds, abs=2.0)] * 3
    assert (said["order"], said["version"], said["monotonic"]) == (True, 7, True)
