"""The program as a whole: help, settings, migrations, errors and exit codes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ferryman.kernel.pool import Database
from tests.surfaces import ferry

NOWHERE = "postgresql://nobody@127.0.0.1:1/nowhere"


def test_help_names_every_command_and_the_exit_codes() -> None:
    ran = ferry.run("--help")

    assert ran.code == 0
    for word in ("demo", "dev", "worker", "migrate", "task", "events", "doctor", "config", "version", "Exit codes"):
        assert word in ran.out


def test_help_does_not_load_the_driver() -> None:
    asked = "import sys; from ferryman.cli import main; main(['--help']); sys.exit('asyncpg' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", asked], env=ferry.environ(None), check=False).returncode == 0


def test_a_missing_extra_is_one_sentence() -> None:
    asked = "import sys; sys.modules['cyclopts'] = None; from ferryman.cli import main; sys.exit(main(['--help']))"
    ran = subprocess.run(
        [sys.executable, "-c", asked], env=ferry.environ(None), capture_output=True, text=True, check=False
    )

    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.strip().endswith("pip install 'ferryman[cli]'")


def test_config_says_where_each_value_comes_from_and_hides_passwords(tmp_path: Path) -> None:
    (tmp_path / "ferryman.toml").write_text("tenant = 'acme'\n[worker]\nlease = '9s'\n", encoding="utf-8")

    ran = ferry.run("config", "--json", "--schema", "here", url="postgresql://me:secret@host/db", cwd=tmp_path)

    assert ran.json["database_url"] == {
        "value": "postgresql://me:***@host/db",
        "from": "environment FERRYMAN_DATABASE_URL",
    }
    assert ran.json["worker.lease"] == {"value": "9s", "from": "file ferryman.toml"}
    assert ran.json["schema"] == {"value": "here", "from": "argument"}
    assert ran.json["worker.grace"]["from"] == "default"
    assert "secret" not in ran.out


@pytest.mark.contract("K15")
def test_migrate_tells_each_migration_and_then_has_nothing_to_do(empty_database_url: str) -> None:
    planned = ferry.run("migrate", "--plan", url=empty_database_url)
    first = ferry.run("migrate", url=empty_database_url)
    second = ferry.run("migrate", "--json", url=empty_database_url)

    assert "create table ferryman.tasks" in planned.out
    assert "applied 0001_kernel" in first.out.splitlines()
    assert second.json == {"applied": []}


def test_tables_that_are_missing_are_told_with_what_to_do(empty_database_url: str) -> None:
    ran = ferry.run("task", "list", url=empty_database_url)

    assert (ran.code, ran.out) == (3, "")
    assert ran.err.startswith("DATABASE_NOT_MIGRATED: ")
    assert "Run `ferryman migrate`" in ran.err


@pytest.mark.contract("K20")
@pytest.mark.parametrize("command", [("task", "list"), ("events",), ("migrate",)])
def test_a_database_that_cannot_be_reached_is_one_sentence(command: tuple[str, ...]) -> None:
    ran = ferry.run(*command, url=NOWHERE)

    assert (ran.code, ran.out) == (3, "")
    assert ran.err.startswith("DATABASE_UNAVAILABLE: ")
    assert len(ran.err.splitlines()) == 1


def test_who_only_asks_does_not_make_a_database(tmp_path: Path) -> None:
    ran = ferry.run("task", "list", cwd=tmp_path)

    assert ran.code == 3
    assert "ferryman dev" in ran.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.contract("K20")
def test_an_error_with_json_is_an_object_on_stderr() -> None:
    ran = ferry.run("task", "list", "--json", url=NOWHERE)

    assert ran.out == ""
    assert json.loads(ran.err)["code"] == "DATABASE_UNAVAILABLE"
    assert json.loads(ran.err)["retryable"] is True


@pytest.mark.parametrize(
    ("typed", "hint"),
    [
        (("tsk",), "task"),
        (("task", "lst"), "list"),
        (("config", "--tenent", "x"), "--tenant"),
        (("worker",), "--app"),
        (("worker", "--app", "shop:app", "--lease", "1ms"), "at least 2s"),
        (("worker", "--app", "shop:app", "--lease", "soon"), "30s"),
        (("worker", "--app", "nowhere:app"), "no module 'nowhere'"),
        (("worker", "--app", "shop:ap"), "Did you mean app?"),
        (("worker", "--app", "shop:number"), "a int, not a Ferryman"),
        (("worker", "--app", "shop:app", "--log-level", "loud"), "debug, info"),
        (("task", "create"), "Name the handler"),
        (("task", "create", "greet", "{"), "not JSON"),
        (("task", "create", "greet", "@nowhere.json"), "cannot be read"),
        (("task", "create", "greet", "--at", "tomorrow"), "+90s"),
        (("task", "create", "greet", "--timeout", "long"), "--timeout"),
        (("task", "create", "greet", "--request", "{}"), "one too many"),
        (("task", "cancel"), "--queue"),
        (("task", "cancel", "--state", "failed"), '"pending", "ready", "running"'),
        (("task", "list", "--before", "x"), "--before"),
        (("events", "--after", "yesterday"), "evt_1200"),
    ],
)
def test_what_was_typed_wrongly_is_told_in_one_line(typed: tuple[str, ...], hint: str, database_url: str) -> None:
    ran = ferry.run(*typed, url=database_url)

    assert (ran.code, ran.out) == (2, "")
    assert hint in ran.err
    assert len(ran.err.splitlines()) == 1


def test_a_module_that_breaks_on_import_is_told_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("\nimport nowhere.at.all\n", encoding="utf-8")

    ran = ferry.run("worker", "--app", "broken:app", cwd=tmp_path)

    assert ran.code == 2
    assert "No module named 'nowhere' (broken.py, line 2)" in ran.err
    assert "Traceback" not in ran.err


def test_common_options_may_stand_before_the_command(database_url: str) -> None:
    ran = ferry.run("--json", "--tenant", "acme", "config", url=database_url)

    assert ran.json["tenant"]["value"] == "acme"


@pytest.mark.contract("K20")
async def test_whom_postgresql_does_not_let_in_is_told_what_to_set(database_url: str) -> None:
    stranger = database_url.replace("postgres@", "nobody_here@")

    ran = ferry.run("task", "list", url=stranger)
    doctor = ferry.run("doctor", url=stranger)

    assert (ran.code, doctor.code) == (3, 3)
    assert ran.err.startswith("DATABASE_REFUSED: ")
    assert "FERRYMAN_DATABASE_URL" in ran.err
    assert "nobody_here" in doctor.out


@pytest.mark.contract("K20")
async def test_a_statement_that_postgresql_refuses_is_one_sentence(db: Database, database_url: str) -> None:
    async with db.session() as tx:
        await tx.fetch("alter view ferryman.bounds rename column rule to law")
    ferry.run("task", "create", "greet", "--id", "one", url=database_url)

    ran = ferry.run("task", "show", "one", url=database_url)

    assert ran.code == 3
    assert ran.err.startswith("STATEMENT_REFUSED: ")
    assert ran.err.count("\n") == 1
