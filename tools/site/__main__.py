"""Write the site."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tools.site import build, check, stage

ROOT = Path(__file__).resolve().parent.parent.parent


def main(arguments: Sequence[str] | None = None, *, root: Path = ROOT) -> int:
    """Stage the pages, make the site, and check it; return 1 if it is not whole."""
    parser = argparse.ArgumentParser(description="Write the documentation as a site.")
    parser.add_argument("--into", type=Path, default=root / "site", help="where to (site/)")
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="ferryman-site-") as folder:
        staged = stage.stage(root, Path(folder) / "pages")
        build.build(staged, Path(folder), asked.into)
    wrong = check.faults(asked.into)
    for each in wrong:
        print(each, file=sys.stderr)
    if not wrong:
        print(f"{len(staged.pages)} pages in {asked.into}: open {asked.into / 'index.html'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
