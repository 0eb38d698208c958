"""Runs and models at an address of fsspec: s3://bucket/run, gs://..., memory://..., file:///...

A run works in a local folder. Its files are copied to the address whenever a checkpoint, or something after it, was
written: first what the checkpoint refers to, then the checkpoint, then config.yaml, which makes a folder a run. So a
kill at any moment leaves a run that can be resumed, on any machine.
"""

import atexit
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from horst.errors import CheckpointError, HorstError
from horst.extras import require

CHECKPOINT = "checkpoint.ckpt"  # of a run; the largest file, which only training reads
LAST = (CHECKPOINT, "config.yaml")  # are copied after all others, in this order
WHOLE = {"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl", "oss", "memory"}
"""Stores in which a file appears when all of it was written. Elsewhere it is written under another name first."""
_WORKING: dict[str, "RemoteFolder"] = {}


class RemoteFolder:
    """An address, and the local copy of what is there."""

    def __init__(self, address: str) -> None:
        """It is empty until `pull`."""
        fsspec = require("fsspec", "cluster")
        self.address = address
        with _errors(address):
            self._files, self._root = fsspec.core.url_to_fs(address)
        protocols = self._files.protocol
        self._whole = bool(WHOLE & ({protocols} if isinstance(protocols, str) else set(protocols)))
        self.local = Path(tempfile.mkdtemp(prefix="horst-run-"))
        atexit.register(shutil.rmtree, self.local, ignore_errors=True)
        self._known: dict[str, tuple[int, int]] = {}  # size and time of what is at the address
        self._skipped: set[str] | None = None  # what is not copied; None before the first copy

    def pull(self, skip: Iterable[str] = ()) -> None:
        """Copy what is at the address, once. `skip`: files and folders of it that are not needed yet."""
        skip = set(skip)
        if self._skipped is not None and self._skipped <= skip:
            return
        with _errors(self.address):
            self._files.invalidate_cache()
            root = self._files._strip_protocol(self._root).rstrip("/")
            for name in self._files.find(root) if self._files.exists(root) else ():
                relative = self._files._strip_protocol(name)[len(root) :].lstrip("/")
                path = Path(relative)
                if path.name.startswith(".") or path.parts[0] in skip or relative in self._known:
                    continue
                target = self.local / path
                target.parent.mkdir(parents=True, exist_ok=True)
                self._files.get_file(name, str(target))
                self._known[relative] = _stamp(target)
        self._skipped = skip if self._skipped is None else self._skipped & skip

    def push(self) -> None:
        """Copy what has changed, and remove what is gone."""
        now = self._stamps()
        with _errors(self.address):
            for name in self._known.keys() - now.keys():
                self._files.rm_file(f"{self._root}/{name}")
            changed = [name for name, stamp in now.items() if self._known.get(name) != stamp]
            for name in sorted(changed, key=lambda name: (LAST.index(name) + 1 if name in LAST else 0, now[name][1])):
                self._put(name)
        self._known = now

    def _put(self, name: str) -> None:
        place = f"{self._root}/{name}"
        folder, _, file = place.rpartition("/")
        self._files.makedirs(folder, exist_ok=True)
        partial = place if self._whole else f"{folder}/.{file}.partial"
        self._files.put_file(str(self.local / name), partial)
        if partial != place:
            self._files.mv(partial, place)

    def _stamps(self) -> dict[str, tuple[int, int]]:
        """Hidden files are locks and unfinished files."""
        files = ((path, path.relative_to(self.local)) for path in self.local.rglob("*") if path.is_file())
        shown = [(path, name) for path, name in files if not any(part.startswith(".") for part in name.parts)]
        return {name.as_posix(): _stamp(path) for path, name in shown}


def _stamp(path: Path) -> tuple[int, int]:
    return path.stat().st_size, path.stat().st_mtime_ns


def remote_folder(address: str, skip: Iterable[str] = ()) -> RemoteFolder:
    """The folder at an address: in one process always the same local copy. `skip`: see `RemoteFolder.pull`."""
    address = address.rstrip("/")
    folder = _WORKING.get(address) or RemoteFolder(address)
    folder.pull(skip)
    _WORKING[address] = folder
    return folder


def forget(address: str) -> None:
    """Remove the local copy; the next use of the address reads it again."""
    if (found := _WORKING.pop(address.rstrip("/"), None)) is not None:
        shutil.rmtree(found.local, ignore_errors=True)


@contextmanager
def _errors(address: str) -> Iterator[None]:
    try:
        yield
    except HorstError:
        raise
    except Exception as error:  # every store has its own
        remedy = "check the address, its package (such as s3fs) and your access; the last checkpoint there is unchanged"
        raise CheckpointError(f"{address} cannot be used: {type(error).__name__}: {error}; {remedy}") from error
