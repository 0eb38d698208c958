"""Files that appear whole or not at all, and folders that are taken by one process at a time."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

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
    file = (folder / LOCK).open("w")
    if sys.platform != "win32":
        try:
            fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            raise
        except OSError:
            pass  # a file system without locks
    return file
