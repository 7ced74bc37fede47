"""What holds for every command, found by walking the program: a new one is tried without touching this."""

import json
import re
import shlex
import subprocess
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any, get_args

import pytest

import ferryman
from ferryman.agents import rules
from ferryman.agents.states import HeadState
from ferryman.batches.states import BatchStatus
from ferryman.cli import boundary, choices, exits, program
from ferryman.http import problems
from ferryman.ingest.rules import windows
from ferryman.kernel import errors
from ferryman.relays.states import DeliveryState, WebhookState
from ferryman.tasks import states as tasks
from ferryman.tasks.rules import standing
from tests.surfaces import ferry
from tools import commands

FOUND = {path: app for path, app in commands.walk() if app.default_command is not None}
# They go on until they are told to stop, or take their time; each has tests of its own.
GOES_ON = {("demo",), ("dev",), ("worker",), ("server",), ("bench",)}
# What is given for what a command needs; an id is one that nobody has.
GIVEN = {
    **dict.fromkeys(("ID", "TURN", "BATCH", "DELIVERY"), str(uuid.UUID(int=7))),
    "JSON": "{}", "URL": "https://example.com/hook", "--app": "harbour:app", "--since": "2026-01-01T00:00:00Z",
    "--to": "2026-01-01T00:00:00Z",
}  # fmt: skip


def typed(path: tuple[str, ...]) -> list[str]:
    """The shortest that a command takes."""
    words = list(path)
    for each in FOUND[path].assemble_argument_collection():
        name = each.names[0]
        if each.required:
            words += [name, GIVEN.get(name, "nobody")] if name.startswith("-") else [GIVEN.get(name, "nobody")]
    return words


def spelled(path: tuple[str, ...]) -> str:
    return " ".join(path)


@pytest.mark.contract("S3")
@pytest.mark.parametrize("path", FOUND, ids=spelled)
def test_every_command_answers_programs_in_json(path: tuple[str, ...]) -> None:
    taken = {name for each in FOUND[path].assemble_argument_collection() for name in each.names}

    assert "--json" in taken


@pytest.mark.contract("S3", "K20")
def test_with_json_stdout_is_json_and_an_error_is_an_object_with_a_code(
    database_url: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FERRYMAN_DATABASE_URL", database_url)
    monkeypatch.chdir(ferry.HERE)
    wrong = {}
    for path in FOUND:
        if path in GOES_ON:
            continue
        code = boundary.run([*typed(path), "--json"])
        said = capfd.readouterr()
        if not _sound(code, said.out, said.err):
            wrong[spelled(path)] = (code, said.out, said.err)

    assert wrong == {}


def _sound(code: int, out: str, err: str) -> bool:
    if code not in exits.MEANINGS:
        return False
    if out:
        return _is_json(out)
    told: Any = json.loads(err) if code != exits.OK and err else {"code": "", "message": ""} if code == exits.OK else {}
    return "code" in told and "message" in told


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except json.JSONDecodeError:
        return all(json.loads(line) for line in text.splitlines())
    return True


@pytest.mark.parametrize("path", FOUND, ids=spelled)
def test_an_option_that_is_not_there_is_refused_in_one_line(
    path: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    code = boundary.run([*typed(path), "--nonsense", "1"])

    said = capsys.readouterr()
    assert (code, said.out) == (exits.USAGE, "")
    assert "--nonsense" in said.err
    assert len(said.err.splitlines()) == 1


# Of requests over HTTP alone; and a source that an app lacks is not found by who names it here.
ELSEWHERE = (errors.RouteUnknown, errors.RequestInvalid, errors.TenantChanged, errors.IngestUnknownSource)


def test_an_error_has_the_exit_code_of_its_kind() -> None:
    """As HTTP tells not found, conflicts and wrong requests apart, so do exit codes."""
    kinds = {404: exits.NOT_FOUND, 409: exits.CONFLICT, 422: exits.USAGE}
    told = {each: exits.of(each("")) for each in problems.STATUS if each not in ELSEWHERE}

    assert {each: code for each, code in told.items() if kinds.get(problems.STATUS[each], code) != code} == {}


def test_the_help_names_every_exit_code() -> None:
    assert all(f"{code} {says}" in exits.TOLD for code, says in exits.MEANINGS.items())


def test_the_guide_names_every_exit_code() -> None:
    guide = (Path(__file__).parents[2] / "docs/guide/command-line.md").read_text(encoding="utf-8")

    assert re.findall(r"^\| (\d+) \| (.+) \|$", guide, re.MULTILINE) == [
        (str(code), says) for code, says in exits.MEANINGS.items()
    ]


def test_bash_completes_commands_and_their_options(tmp_path: Path) -> None:
    script = tmp_path / "ferryman.bash"
    script.write_text(program.make([]).generate_completion(shell="bash"), encoding="utf-8")
    asked = r"""
        source "$1"; shift
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}
        "$(complete -p ferryman | sed -E 's/.*-F ([^ ]+).*/\1/')" ferryman
        printf '%s\n' "${COMPREPLY[@]}"
    """

    def complete(*words: str) -> list[str]:
        ran = subprocess.run(
            ["bash", "-c", asked, "bash", str(script), "ferryman", *words], capture_output=True, text=True, check=True
        )
        return ran.stdout.split()

    assert "task" in complete("ta")
    assert {"create", "cancel"} <= set(complete("task", "c"))
    assert "--priority" in complete("task", "create", "--pri")
    assert {"pending", "succeeded"} <= set(complete("task", "list", "--state", ""))


@pytest.mark.contract("S3", "S5")
def test_commands_that_pages_tell_can_be_typed() -> None:
    told: list[str] = []
    for page in (Path(ferryman.__file__).parent / "dashboard" / "templates").glob("*.html"):
        for words in re.findall(r"ferryman [a-z]+ [^`<]*?(?=\\n|`|</|\"\))", page.read_text(encoding="utf-8")):
            told.append(words.replace('\\"', '"'))
    assert len(told) >= 12
    for words in told:
        given = shlex.split(words)[1:]
        program.make(given).parse_args(given, print_error=False, exit_on_error=False)  # refuses what it does not know


@pytest.mark.contract("S3")
def test_options_take_one_of_what_there_is() -> None:
    there: dict[Any, Iterable[Any]] = {
        choices.TaskState: tasks.TASK.states, choices.LiveState: set(tasks.TASK.states) - tasks.TASK.terminal,
        choices.LostState: {tasks.FAILED, tasks.CANCELLED}, choices.ScheduleState: tasks.ScheduleState,
        choices.CatchUp: standing.CATCH_UP, choices.Overlap: standing.OVERLAP, choices.AgentStatus: HeadState,
        choices.WhenBusy: rules.BUSY_POLICIES, choices.BatchStatus: BatchStatus, choices.WebhookState: WebhookState,
        choices.DeliveryState: DeliveryState, choices.Operation: windows.OPERATIONS,
    }  # fmt: skip
    for offered, known in there.items():
        assert set(get_args(offered)) == {str(getattr(each, "value", each)) for each in known}, offered


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_every_command_for_each_shell(shell: Any) -> None:
    script = program.make([]).generate_completion(shell=shell)

    assert [spelled(path) for path in FOUND if path[-1] not in script] == []
