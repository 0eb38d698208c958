"""One way to open a model, for every command that takes one.

    somethings                    a model of the package, by its name
    runs/mine                     a run: its best model
    my-model                      the folder of a saved model
    hf://user/name[@revision]     a repository of the Hugging Face Hub

A folder that exists is taken before a name.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import torch

from horst.errors import CheckpointError, ConfigError, did_you_mean
from horst.models.checkpoint import CONFIG, LABELS, WEIGHTS, load, read_config
from horst.models.hub import SCHEME, download
from horst.models.predictor import Predictor, PredictorConfig
from horst.models.pretrained import pretrained

RUN = "config.yaml"
"""The file that makes a folder a run."""


def open_model(source: str | Path, *, weights: str = "best", device: str | torch.device = "cpu") -> Predictor:
    """A model in evaluation mode; `weights`: of a run, its best or its last. The device may be "auto"."""
    where = find_device(device)
    return load(model_folder(source, weights), device=where).eval()


def open_config(source: str | Path) -> PredictorConfig:
    """How a saved model is built, without its weights."""
    return read_config(model_folder(source, wanted=[CONFIG]))


def model_folder(source: str | Path, weights: str = "best", *, wanted: list[str] | None = None) -> Path:
    """The folder of a saved model; of a repository, `wanted` are the files to fetch."""
    if is_address(source):
        return download(str(source), wanted or [CONFIG, WEIGHTS, LABELS])
    path = Path(source)
    if (path / RUN).is_file():
        if not _saved(path / weights):
            raise CheckpointError(f"{path} has no {weights} model yet: no epoch of it is finished")
        return path / weights
    if _saved(path):
        return path
    if str(source) in pretrained():
        return Path(str(files("horst") / "assets" / "models" / str(source)))
    known = did_you_mean(source, pretrained(), "Pass a run, the folder of a saved model, hf://user/name or one of")
    raise CheckpointError(f"there is no model {str(source)!r}{known}")


def model_title(source: str | Path) -> str:
    """A short name for a model: the last part of its path or address, without the revision."""
    address = str(source).partition("@")[0] if is_address(source) else str(Path(source).resolve())
    return address.rstrip("/").rpartition("/")[2] or "model"


def is_address(source: object) -> bool:
    return isinstance(source, str) and source.startswith(SCHEME)


def find_device(name: str | torch.device) -> torch.device:
    """A device of this machine; "auto" is a GPU where there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ConfigError(
            f"device is {name!r}, which cannot be used here ({reason}): it takes auto, cpu, cuda or cuda:1"
        ) from error
    return device


def _saved(path: Path) -> bool:
    """A folder, or what a save that was killed between two renames has left of it, which `load` finds."""
    return path.exists() or path.with_name(f".{path.name}.old").is_dir()
