"""Find a browser for the tests of the dashboard, or get one.

    python -m tools.browser          say where it is, and get one if there is none

Looked for in this order: FERRYMAN_BROWSER, a Chromium or Chrome of the system, one that playwright has installed. If there is
none, playwright is asked to install its own, and then, as root on Debian and its kin, the system's packages. Without any the
tests of pages in a browser are left out, and that is said; where CI is set their absence is a failure.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
PATIENCE_SECONDS = 300

# As root there is no sandbox to be had; the rest keeps the browser from calling home.
ARGUMENTS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--force-color-profile=srgb",
)  # fmt: skip


def find() -> str | None:
    """Return where a browser is, if there is one."""
    if named := os.environ.get("FERRYMAN_BROWSER"):
        return named
    return next((found for name in NAMES if (found := shutil.which(name))), None) or _playwrights()


def _playwrights() -> str | None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        path = playwright.chromium.executable_path
    return path if Path(path).exists() else None


def get() -> str | None:
    """Return where a browser is; get one if there is none."""
    if found := find():
        return found
    _try([sys.executable, "-m", "playwright", "install", "chromium-headless-shell"])
    if not (found := find()) and os.geteuid() == 0 and shutil.which("apt-get"):
        _try(["apt-get", "update", "-q"])
        _try(["apt-get", "install", "-qy", "--no-install-recommends", "chromium"])
        found = find()
    return found


def _try(command: list[str]) -> None:
    try:
        subprocess.run(
            command, check=False, timeout=PATIENCE_SECONDS, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        sys.stderr.write(f"{command[0]}: {error}\n")


def main() -> int:
    """Say where the browser is."""
    found = get()
    if found:
        sys.stderr.write(f"Browser: {found}\n")
        return 0
    sys.stderr.write(
        "\n*** No browser could be found or installed: the tests of pages in a browser are LEFT OUT. ***\n"
        "*** Install Chromium, or name one with FERRYMAN_BROWSER. ***\n\n"
    )
    return 1 if os.environ.get("CI") else 0


if __name__ == "__main__":
    raise SystemExit(main())
