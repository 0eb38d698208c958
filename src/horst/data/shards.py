"""The files of a packed data set: in a folder, or at an address of fsspec such as s3://bucket/set.

Files at an address are copied to a local folder when they are first needed, once for all processes of a machine and all
epochs: clips are drawn from all shards in random order, so reading them where they are would read each shard often.
"""

from pathlib import Path
from typing import Any

from horst.errors import DataError
from horst.extras import require
from horst.io import INDEX, atomic_write, cache_folder, digest, is_url, lock


class Shards:
    """Files in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def get(self, name: str) -> Path:
        """The local path of a file, which may not exist."""
        return self.folder / name

    def stamp(self, name: str) -> tuple[int, int]:
        """(size, modification time) of a file; the time is 0 where it means nothing."""
        found = (self.folder / name).stat()
        return found.st_size, found.st_mtime_ns


class RemoteShards(Shards):
    """Files at an address, copied into a folder of their own in `cache`."""

    def __init__(self, address: str, cache: Path | None = None) -> None:
        self.address = address.rstrip("/")
        try:
            self._connect()
            index = self._files.cat_file(f"{self._root}/{INDEX}")
            found = self._files.find(self._root, detail=True)
        except Exception as error:  # every store has its own
            raise DataError(
                f"{self.address} cannot be read: {type(error).__name__}: {error}; check the address, its package (such "
                "as s3fs) and your access"
            ) from error
        self._sizes = {str(name).rpartition("/")[2]: int(info["size"]) for name, info in found.items()}
        key = digest([self.address, index.decode(errors="replace")])
        super().__init__((cache or cache_folder() / "shards") / key)

    def _connect(self) -> None:
        found: tuple[Any, str] = require("fsspec", "cluster").core.url_to_fs(self.address)
        self._files, self._root = found

    def get(self, name: str) -> Path:
        path = self.folder / name
        if path.exists() or name not in self._sizes:
            return path
        with lock(self.folder / ".locks" / name):  # of all processes of this machine, one copies
            if not path.exists():
                try:
                    with atomic_write(path) as partial:
                        self._files.get_file(f"{self._root}/{name}", str(partial))
                except Exception as error:
                    raise DataError(f"{self.address}/{name} cannot be copied to {path}: {error}") from error
        return path

    def stamp(self, name: str) -> tuple[int, int]:
        return self._sizes.get(name, 0), 0

    def __getstate__(self) -> dict[str, Any]:
        """Without the connection: other processes open their own."""
        return {**self.__dict__, "_files": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._connect()


def open_shards(folder: str | Path, cache: str | Path | None = None) -> Shards:
    return RemoteShards(str(folder), Path(cache) if cache else None) if is_url(folder) else Shards(Path(folder))
