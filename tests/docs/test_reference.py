from pathlib import Path

import pytest

import ferryman
from ferryman import testing
from tools import reference

ROOT = Path(__file__).resolve().parent.parent.parent


def test_the_reference_is_what_the_code_says() -> None:
    assert (ROOT / "docs/reference.md").read_text(encoding="utf-8") == reference.page()


@pytest.mark.parametrize("name", [*ferryman.__all__, *testing.__all__])
def test_every_public_name_is_in_the_docs(name: str) -> None:
    assert f"### {name}\n" in (ROOT / "docs/reference.md").read_text(encoding="utf-8")
