import json
import re
from pathlib import Path

import pytest

from tools import pages


@pytest.fixture
def one_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "PAGES", {"docs/page.md": lambda: "fresh\n"})


@pytest.mark.usefixtures("one_page")
def test_a_stale_page_is_named_and_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/page.md").write_text("stale\n", encoding="utf-8")

    assert pages.main(["--check"], root=tmp_path) == 1
    assert "docs/page.md is stale" in capsys.readouterr().err
    assert (tmp_path / "docs/page.md").read_text(encoding="utf-8") == "stale\n"


@pytest.mark.usefixtures("one_page")
def test_a_written_page_is_fresh(tmp_path: Path) -> None:
    assert pages.main([], root=tmp_path) == 0
    assert pages.main(["--check"], root=tmp_path) == 0


def test_the_schema_is_the_same_on_every_day() -> None:
    told = (pages.ROOT / "docs/schema.sql").read_text(encoding="utf-8")

    assert "CREATE TABLE ferryman.events_default" in told
    assert not re.search(r"events_\d", told)


def test_every_schema_of_the_api_has_a_name_of_its_own() -> None:
    api = json.loads((pages.ROOT / "docs/openapi.json").read_text(encoding="utf-8"))

    # A second type of the same name renames the schema that clients have code for: Reason becomes Reason-Input.
    assert [name for name in api["components"]["schemas"] if name.endswith(("-Input", "-Output"))] == []
