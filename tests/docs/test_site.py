"""The documentation as a site: everything is in it, every link leads somewhere, and nothing comes from elsewhere."""

from pathlib import Path

import pytest

from tools.site import check, http, stage
from tools.site.__main__ import main

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.mark.contract("S8")
def test_the_site_is_whole_and_fetches_nothing_from_elsewhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["--into", str(tmp_path / "site")])

    assert (code, capsys.readouterr().err) == (0, "")
    staged = stage.stage(ROOT, tmp_path / "pages")
    made = {
        path
        for path in staged.pages
        if (tmp_path / "site" / path.replace("README.md", "index.md")).with_suffix(".html").exists()
    }
    assert set(staged.pages) - made == set()
    assert '<svg class="machine"' in (tmp_path / "site/machines/tasks.html").read_text(encoding="utf-8")


def test_every_page_has_one_place_in_the_navigation(tmp_path: Path) -> None:
    staged = stage.stage(ROOT, tmp_path)

    assert sorted(stage.paths(staged.nav)) == sorted(staged.pages)
    assert "More" not in {name for entry in staged.nav for name in entry}


@pytest.mark.parametrize(
    ("page", "fault"),
    [
        ('<script src="https://elsewhere.example/x.js"></script>', "fetches https://elsewhere.example/x.js"),
        ('<link rel="stylesheet" href="//elsewhere.example/x.css">', "fetches //elsewhere.example/x.css"),
        ('<img src="lost.png">', "lacks lost.png"),
        ('<a href="lost.html">x</a>', "leads to lost.html"),
        ('<a href="#lost">x</a>', "no such heading"),
        ('<a href="other.html#lost">x</a>', "no such heading"),
    ],
)
def test_what_is_wrong_with_a_site_is_named(page: str, fault: str, tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text(page, encoding="utf-8")
    (tmp_path / "other.html").write_text(
        '<h1 id="there">x</h1><a href="https://elsewhere.example">x</a>', encoding="utf-8"
    )

    [found] = check.faults(tmp_path)

    assert fault in found


def test_http_is_told_operation_by_operation() -> None:
    document = {
        "paths": {
            "/v1/tasks/{id}": {
                "get": {
                    "summary": "Read a task.", "x-scope": "read",
                    "parameters": [{"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}],
                    "responses": {"200": {"description": "The task."}, "default": {"description": "wrong"}},
                }
            }
        }
    }  # fmt: skip

    page = http.page(document)

    assert "## Tasks\n\n### GET /v1/tasks/{id}\n\nRead a task.\n\nNeeds the scope `read`." in page
    assert "| `id` | path | string | |" in page.replace("|  |", "| |")
    assert page.endswith("\n\nAnswers `200` The task.\n")
