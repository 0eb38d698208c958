"""Atomic writes, locks on folders, digests, and JSON files with a checksum."""

import errno
import hashlib
import json
import os
import socket
import time
import zlib
from collections.abc import Container, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO

from horst.errors import DataError, HorstError

INDEX = "index.json"
LOCK = ".lock"
PARTIAL = ".partial"  # ends the names of files that are being written; they are hidden
DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # no space, a quota, a file that is too large
ABANDONED = 86_400.0  # seconds after which the unfinished file of another machine counts as abandoned
_CHECKSUM = '{"crc32": "%08x", '
_CHECKSUM_LENGTH = len(_CHECKSUM % 0)


@contextmanager
def atomic_write(path: Path, *, overwrite: bool = True) -> Iterator[Path]:
    """A temporary file to write, which becomes `path` at the end of the block. On an error `path` stays as it was.

    The folder is created if it is missing. Any number of processes and machines can write the same file. Without
    `overwrite` a file that exists is kept.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{_host()}.{os.getpid()}{PARTIAL}")
    try:
        yield partial
        if not overwrite:
            try:
                os.link(partial, path)  # unlike a rename, it fails if another process was faster
            except OSError:
                overwrite = not path.exists()  # a file system without links
        if overwrite:
            os.replace(partial, path)
    except OSError as error:
        if error.filename is None and error.errno is not None:  # of `write`, such as that of a full disk
            error.filename = str(path)
        raise
    finally:
        partial.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a small file atomically, as UTF-8. Names of files that are not UTF-8 get escapes, as in JSON and YAML."""
    with atomic_write(path) as partial:
        partial.write_text(text, encoding="utf-8", errors="backslashreplace")


def remove_abandoned(folder: Path, names: Container[str] | None = None) -> None:
    """Remove the unfinished files of `atomic_write` that killed processes left in `folder`, by default all of them.

    `names`: those of these files.
    """
    for path in folder.glob(f".*{PARTIAL}"):
        name, *writer = path.name[1 : -len(PARTIAL)].rsplit(".", 2)
        if (names is not None and name not in names) or len(writer) != 2:
            continue  # it is not of `atomic_write`
        host, process = writer
        dead = host == _host() and process.isdecimal() and not _is_running(int(process))
        with suppress(OSError):  # it was finished just now, or belongs to another user
            if dead or time.time() - path.stat().st_mtime > ABANDONED:
                path.unlink()


def _host() -> str:
    return socket.gethostname().replace(".", "-")


def _is_running(process: int) -> bool:
    """Whether another process has this id."""
    try:
        os.kill(process, 0)
    except OSError as error:
        return isinstance(error, PermissionError)
    return process != os.getpid()


@contextmanager
def disk_errors(place: Path, kind: type[HorstError]) -> Iterator[None]:
    """Turn errors of the disk, such as a full one, into errors of the class `kind` that name `place`."""
    try:
        yield
    except OSError as error:
        raise kind(f"{place} cannot be written: {error}; free some space or choose another place") from error


def set_default_mode(path: Path) -> None:
    """Give a file the permissions of new files in its folder: safetensors lets only the owner read what it writes."""
    probe = path.with_name(f".{path.name}.{os.getpid()}.mode")
    with suppress(OSError):  # not all file systems have modes
        probe.touch()
        path.chmod(probe.stat().st_mode)
        probe.unlink()


MISSING = "missing"  # the stamp of a file or folder that is not there


def file_stamp(path: Path) -> str:
    """Size and modification time of a file, or a digest of those of all files in a folder. Nothing is read.

    A folder takes about 4 us a file (2 million frames: 9 s), so callers keep the stamps of folders.
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
        return MISSING


def is_url(place: object) -> bool:
    """Whether a folder or file is an address, such as s3://bucket/name, rather than a path."""
    return "://" in str(place)


def cache_folder() -> Path:
    """Where files are kept that can be made again: HORST_CACHE, by default ~/.cache/horst."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("HORST_CACHE") or Path(base) / "horst")


def digest(data: Any) -> str:
    """A digest of JSON data; other values count by their text."""
    return hashlib.sha256(json.dumps(data, sort_keys=True, default=str).encode()).hexdigest()[:24]


def read_json(path: Path) -> Any:
    """The contents of a JSON file. DataError if a mapping has a key twice: one of the values would be lost."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            names = [name for name, _ in pairs]
            raise ValueError(f"the key {next(n for n in names if names.count(n) > 1)!r} occurs twice")
        return found

    try:
        return json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=unique)
    except FileNotFoundError as error:
        raise DataError(f"{path}: there is no such file") from error
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{path} cannot be read as JSON: {error}") from error


def encode_checked(data: dict[str, Any]) -> str:
    """A mapping with at least one entry as JSON whose first entry, "crc32", is the checksum of all that follows."""
    rest = json.dumps(data)[1:]
    return _CHECKSUM % zlib.crc32(rest.encode()) + rest


def write_checked(path: Path, data: dict[str, Any]) -> None:
    """Write `encode_checked(data)` atomically."""
    write_text(path, encode_checked(data))


def decode_checked(raw: bytes) -> dict[str, Any]:
    """The mapping of `encode_checked`. ValueError if the checksum is wrong; JSON without a checksum is accepted."""
    start = raw[:_CHECKSUM_LENGTH]
    if raw.startswith(b'{"crc32": "') and start != (_CHECKSUM % zlib.crc32(raw[_CHECKSUM_LENGTH:])).encode():
        raise ValueError("its checksum does not match")
    try:
        data = json.loads(raw)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    if not isinstance(data, dict):
        raise ValueError(f"it holds a {type(data).__name__}; a mapping is needed")
    data.pop("crc32", None)
    return data


def read_checked(path: Path) -> tuple[dict[str, Any], bytes]:
    """The mapping in a file that was written with `encode_checked`, and the bytes of the file."""
    try:
        raw = path.read_bytes()
        return decode_checked(raw), raw
    except FileNotFoundError as error:
        raise DataError(f"{path}: there is no such file") from error
    except (OSError, ValueError) as error:
        raise DataError(
            f"{path} cannot be read as JSON, it is damaged: {error}; restore it or make it again"
        ) from error


def claim_folder(folder: Path, index: dict[str, Any], kind: str, optional: Container[str] = ()) -> None:
    """Write `index` as index.json into a new or empty folder, or check that it is the index of the folder.

    DataError if the folder holds other files or another index. `kind` names the contents in the message. Entries in
    `optional` may be missing: older versions did not write them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path, there = folder / INDEX, {p.name for p in folder.iterdir() if not p.name.startswith(".")}
    if INDEX not in there:
        if there:
            raise DataError(f"{folder} is not empty and is no {kind}: choose another folder")
        with atomic_write(path, overwrite=False) as partial:
            partial.write_text(encode_checked(index), encoding="utf-8")
    remove_abandoned(folder, {INDEX})
    stored, now = read_checked(path)[0], json.loads(json.dumps(index))
    for key in {**now, **stored}:
        old, new = stored.get(key), now.get(key)
        if old != new and (key in stored or key not in optional):
            values = f" ({old} there, {new} now)" if len(f"{old}{new}") < 500 else ""
            raise DataError(f"{folder} is another {kind}: {key} differs{values}; choose another folder")


def lock(folder: Path, *, wait: bool = True) -> TextIO:
    """Lock a folder, which is created if it is missing, until the returned file is closed.

    Processes that inherit the file hold the lock too (not on Windows). It ends with the last of them, even if that is
    killed. On file systems without locks nothing is locked. BlockingIOError if another process has the lock and `wait`
    is False.
    """
    from filelock import lock_descriptor  # 50 ms, which most commands do not need

    folder.mkdir(parents=True, exist_ok=True)
    file = (folder / LOCK).open("a+")  # "w" would remove the name of the holder
    try:
        locked = lock_descriptor(file.fileno(), blocking=wait)
    except OSError:
        locked = True  # a file system without locks
    if not locked:
        file.close()
        raise BlockingIOError(errno.EAGAIN, f"another process has the lock {folder / LOCK}")
    with suppress(OSError):  # a full disk: the lock holds all the same
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
        file.flush()
    return file


def is_locked(folder: Path) -> bool:
    """Whether a process has the lock of a folder."""
    try:
        if folder.is_dir():
            lock(folder, wait=False).close()
    except BlockingIOError:
        return True
    return False


def holder(folder: Path) -> str:
    """The process that holds the lock of a folder, in words."""
    with suppress(OSError, UnicodeDecodeError):
        return (folder / LOCK).read_text(encoding="utf-8").strip() or "another process"
    return "another process"
