"""Where models are: names of the package, folders, runs and addresses. Needs no torch, so commands check it at once."""

import re
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path

from horst.errors import CheckpointError, ConfigError, did_you_mean
from horst.io import is_url
from horst.remote import CHECKPOINT, remote_folder

SCHEME = "hf://"
RUN = "config.yaml"  # the file that makes a folder a run
MODEL = "config.json"  # and that of a saved model
FUSION = "fusion.json"  # of fused runs: see `horst.training.fusion`


def is_address(source: object) -> bool:
    return isinstance(source, str) and source.startswith(SCHEME)


def split_address(address: str) -> tuple[str, str | None]:
    """The repository and the revision of hf://user/name@revision."""
    found = re.fullmatch(r"hf://(?P<name>[\w.-]+/[\w.-]+?)(?:@(?P<revision>[\w./-]+))?/?", address)
    if found is None:
        raise CheckpointError(f"{address} is not the address of a model: write hf://user/name or hf://user/name@v1")
    return found["name"], found["revision"]


def pretrained_models() -> list[str]:
    """Names of the models that come with the package; see docs/reference/models.md."""
    return sorted(entry.name for entry in packaged_folder().iterdir() if (entry / MODEL).is_file())


def packaged_folder() -> Path:
    return Path(str(files("horst") / "assets" / "models"))


def current_place(path: Path) -> Path:
    """Where the model of `path` is: there, or where a save that was killed between two renames moved it."""
    if not path.name:  # a root, or the current folder
        return path
    old = path.with_name(f".{path.name}.old")
    return old if old.is_dir() and not path.exists() else path


def local_folder(place: str | Path, skip: Iterable[str] = (CHECKPOINT,)) -> Path:
    """The folder of a run or a saved model on this machine: a copy, without `skip`, if `place` is an address of fsspec.

    What is at the address is not changed: `horst.training.run.Run` writes there.
    """
    return remote_folder(str(place), skip).local if is_url(place) else Path(place)


def check_new(folder: str | Path) -> None:
    """ConfigError if there is something in a folder that is to be made, or at an address."""
    here = local_folder(folder)
    if any(here.iterdir()) if is_url(folder) else here.exists():
        raise ConfigError(f"{folder} exists already: give another --folder")


def find_model(source: str | Path, weights: str = "best") -> Path | None:
    """The folder of a saved model on this machine; None for the Hub. CheckpointError if there is no such model."""
    if is_address(source):
        split_address(str(source))
        return None
    path = local_folder(source) if str(source) else Path("no model")
    if is_url(source) and not any((path / name).is_file() for name in (RUN, MODEL, FUSION)):
        raise CheckpointError(f"there is no run and no saved model at {source}: check the address")
    if (path / RUN).is_file():
        if not current_place(path / weights).exists():
            raise CheckpointError(f"{source} has no {weights} model yet: no epoch of it is finished")
        return path / weights
    if current_place(path).exists():
        return path
    known = pretrained_models()
    if str(source) in known:
        return packaged_folder() / str(source)
    close = did_you_mean(str(source), known, "Pass a run, the folder of a saved model, hf://user/name or one of")
    raise CheckpointError(f"there is no model {str(source)!r}{close}")


def model_title(source: str | Path) -> str:
    """A short name for a model: the last part of its path or address, without the revision."""
    address = str(source).partition("@")[0] if is_address(source) else str(Path(source).resolve())
    return address.rstrip("/").rpartition("/")[2] or "model"
