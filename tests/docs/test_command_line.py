"""The page about the command line knows every command."""

from pathlib import Path

import pytest

from ferryman.cli.program import COMMANDS

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "guide" / "command-line.md"


@pytest.mark.contract("S8")
def test_the_page_names_every_command() -> None:
    text = PAGE.read_text(encoding="utf-8")

    assert [name for name in COMMANDS if f"ferryman {name}" not in text and f"`{name} " not in text] == []
