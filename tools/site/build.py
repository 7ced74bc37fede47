"""The generator's part: what it is told, and its run."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from tools.site.stage import Staged

DESCRIPTION = "Durable orchestration for AI agents, background work and ingestion, on PostgreSQL"
FEATURES = [
    "navigation.indexes",
    "navigation.top",
    "navigation.footer",
    "toc.follow",
    "content.code.copy",
    "search.highlight",
]
PALETTE = [
    {
        "media": "(prefers-color-scheme: light)",
        "scheme": "default",
        "toggle": {"icon": "material/weather-night", "name": "Dark"},
    },
    {
        "media": "(prefers-color-scheme: dark)",
        "scheme": "slate",
        "toggle": {"icon": "material/weather-sunny", "name": "Light"},
    },
]


def settings(staged: Staged) -> dict[str, Any]:
    """Return what the generator is told."""
    return {
        "site_name": "Ferryman",
        "site_description": DESCRIPTION,
        "docs_dir": staged.folder.name,
        "site_dir": "made",
        # Files that link to files: the site can be opened without a server.
        "use_directory_urls": False,
        # Its own typeface would come from elsewhere.
        "theme": {"name": "material", "font": False, "features": FEATURES, "palette": PALETTE},
        "extra": {"generator": False},
        "plugins": ["search"],
        "markdown_extensions": [
            "tables", "attr_list", "md_in_html", {"toc": {"permalink": True}}, "pymdownx.highlight", "pymdownx.superfences",
        ],
        "nav": staged.nav,
    }  # fmt: skip


def build(staged: Staged, folder: Path, into: Path) -> None:
    """Make the site beside its pages, and put it in the place of the one that was there."""
    told = folder / "mkdocs.yml"
    # JSON is YAML too.
    told.write_text(json.dumps(settings(staged), indent=1), encoding="utf-8")
    command = [sys.executable, "-m", "zensical", "build", "--clean", "-f", str(told)]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if ran.returncode != 0 or not (folder / "made/index.html").exists():
        raise SystemExit(f"The generator failed:\n{ran.stdout}{ran.stderr}")
    shutil.rmtree(into, ignore_errors=True)
    shutil.move(folder / "made", into)
