"""Files that appear whole or not at all, and folders that are taken by one process at a time."""

from __future__ import annotations

import hashlib
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from horst.errors import HorstError

if sys.platform != "win32":
    import fcntl

LOCK = ".lock"


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """Another name to write `path` under, renamed when all went well; its folder is made where it is missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        yield partial
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def writing(place: Path, kind: type[HorstError]) -> Iterator[None]:
    """Errors of the disk as `kind`, which names the place: a full disk, a folder without write permission."""
    try:
        yield
    except OSError as error:
        if isinstance(error, HorstError):
            raise
        raise kind(f"{place} cannot be written: {error}; free some space or choose another place") from error


def stamp(path: Path) -> str:
    """Changes when a file is replaced or, for a folder, when any file in it is. Nothing is read.

    A folder costs about 4 us a file (2 million frames: 9 s), so callers keep the stamps of folders.
    """
    try:
        if not path.is_dir():
            found = path.stat()
            return f"{found.st_size} {found.st_mtime_ns}"
        files = hashlib.sha256()
        with os.scandir(path) as entries:
            # Hidden files are locks and unfinished files.
            for entry in sorted((e for e in entries if not e.name.startswith(".")), key=lambda e: e.name):
                found = entry.stat()
                files.update(f"{entry.name} {found.st_size} {found.st_mtime_ns}\n".encode(errors="surrogateescape"))
        return files.hexdigest()[:24]
    except OSError:
        return "missing"


def readable(path: Path) -> None:
    """As other new files there are: safetensors leaves what its own user alone may read."""
    probe = path.with_name(f".{path.name}.{os.getpid()}.mode")
    with suppress(OSError):  # not all file systems have modes
        probe.touch()
        path.chmod(probe.stat().st_mode)
        probe.unlink()


def write_text(path: Path, text: str) -> None:
    """Write a small file, whole or not at all."""
    with whole(path) as partial:
        partial.write_text(text, encoding="utf-8")


def lock(folder: Path, *, wait: bool = True) -> TextIO:
    """Take a folder, which is made where it is missing; it is held until the file that comes back is closed.

    Processes that inherit the file hold it, too, and it ends with the last of them, however that ends. Nothing is held
    where there are no locks (on Windows, on odd network disks). BlockingIOError where another has it and nobody waits.
    """
    folder.mkdir(parents=True, exist_ok=True)
    file = (folder / LOCK).open("a+")  # "w" would remove the name of the one who holds it
    if sys.platform != "win32":
        try:
            fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            raise
        except OSError:
            pass  # a file system without locks
    with suppress(OSError):  # a full disk: the lock holds all the same
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
        file.flush()
    return file


def holder(folder: Path) -> str:
    """Who holds a folder, as far as it is known."""
    with suppress(OSError, UnicodeDecodeError):
        return (folder / LOCK).read_text(encoding="utf-8").strip() or "another process"
    return "another process"
