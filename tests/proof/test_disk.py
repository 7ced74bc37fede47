"""K24: a disk that is really full, as a small file system of its own; when there is room again everything goes on."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.proof.conftest import Tell

ROOT = Path(__file__).resolve().parents[2]
SIZE = "192m"
# A mount that nobody else sees and that goes with the process. Who is not root becomes it in a user namespace to mount,
# and is himself again in one more: PostgreSQL does not run as root.
MOUNT = 'mount -t tmpfs -o size={size},mode=0711 tmpfs "$1" && shift && exec "$@"'


def mounting(place: Path) -> list[str]:
    """Return what runs a command with a small file system at a place."""
    inside = ["sh", "-c", MOUNT.format(size=SIZE), "sh", str(place)]
    if os.geteuid() == 0:
        return ["unshare", "--mount", *inside]
    back = ["unshare", "--user", f"--map-user={os.geteuid()}", f"--map-group={os.getegid()}"]
    return ["unshare", "--map-root-user", "--mount", *inside, *back]


@pytest.mark.contract("K24", "K1")
@pytest.mark.timeout(240)
def test_a_full_disk_loses_nothing_and_work_goes_on_when_there_is_room(ground: Path, tell: Tell) -> None:
    disk = ground / "disk"
    disk.mkdir()
    tried = subprocess.run([*mounting(disk), "true"], capture_output=True, text=True, check=False)
    assert tried.returncode == 0, f"no file system of our own can be mounted here, so this is not shown: {tried.stderr}"

    kept = {name: value for name, value in os.environ.items() if not name.startswith("FERRYMAN_")}
    ended = subprocess.run(
        [*mounting(disk), sys.executable, "-m", "tests.proof.full_disk", str(disk)],
        cwd=ROOT, env={**kept, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}, capture_output=True, text=True,
        timeout=200, check=False,
    )  # fmt: skip

    assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr[-6000:]
    met = json.loads(ended.stdout)
    tell(
        f"full disk: {len(met['acknowledged'])} acknowledged, {len(met['lost'])} lost, {len(met['refused'])} refused;"
        f" the server {'ended itself' if met['server_died'] else 'stayed'}"
    )
    assert met["free_bytes"] < 65_536
    assert any("No space left on device" in words for words in met["refused"]), met["refused"]
    assert (met["lost"], met["unfinished"], met["broken"]) == ([], [], [])
    assert met["attempts"] == [1]
    assert len(met["acknowledged"]) >= 120
