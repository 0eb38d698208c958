"""Opening a model from wherever it is, and the Hugging Face Hub.

    somethings                    a pretrained model of the package, by name
    runs/mine                     a run: its best model
    my-model                      the folder of a saved model
    hf://user/name[@revision]     a repository of the Hugging Face Hub

A folder that exists takes precedence over a name.
"""

import re
import tempfile
from importlib.resources import files
from pathlib import Path

import torch

from horst.errors import CheckpointError, ConfigError, did_you_mean
from horst.extras import require
from horst.models.checkpoint import CONFIG, LABELS, WEIGHTS, current_place, load, read_config, save
from horst.models.predictor import Predictor, PredictorConfig

SCHEME = "hf://"
RUN = "config.yaml"  # the file that makes a folder a run


def open_model(source: str | Path, *, weights: str = "best", device: str | torch.device = "cpu") -> Predictor:
    """Open a model, in evaluation mode.

    Examples:
        >>> import horst
        >>> horst.open_model("somethings").num_classes
        24

    Args:
        source: The name of a pretrained model, a saved folder, a run, or hf://user/name.
        weights: Of a run: "best" or "last".
        device: "auto" is a GPU if there is one.
    """
    where = find_device(device)
    return load(model_folder(source, weights), device=where)


def open_config(source: str | Path) -> PredictorConfig:
    """The config of a saved model, without its weights."""
    return read_config(model_folder(source, wanted=[CONFIG]))


def pretrained_models() -> list[str]:
    """Names of the models that come with the package; see docs/reference/models.md."""
    return sorted(entry.name for entry in _shipped().iterdir() if (entry / CONFIG).is_file())


def model_folder(source: str | Path, weights: str = "best", *, wanted: list[str] | None = None) -> Path:
    """The folder of a saved model. `wanted`: the files to download of a repository."""
    if is_address(source):
        return download(str(source), wanted or [CONFIG, WEIGHTS, LABELS])
    path = Path(source)
    if (path / RUN).is_file():
        if not current_place(path / weights).exists():
            raise CheckpointError(f"{path} has no {weights} model yet: no epoch of it is finished")
        return path / weights
    if current_place(path).exists():
        return path
    known = pretrained_models()
    if str(source) in known:
        return _shipped() / str(source)
    close = did_you_mean(str(source), known, "Pass a run, the folder of a saved model, hf://user/name or one of")
    raise CheckpointError(f"there is no model {str(source)!r}{close}")


def model_title(source: str | Path) -> str:
    """A short name for a model: the last part of its path or address, without the revision."""
    address = str(source).partition("@")[0] if is_address(source) else str(Path(source).resolve())
    return address.rstrip("/").rpartition("/")[2] or "model"


def is_address(source: object) -> bool:
    return isinstance(source, str) and source.startswith(SCHEME)


def find_device(name: str | torch.device) -> torch.device:
    """A device of this machine; "auto" is a GPU if there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise ConfigError(
            f"device is {name!r}, which cannot be used here ({_reason(error)}): it takes auto, cpu, cuda or cuda:1"
        ) from error
    return device


def download(address: str, wanted: list[str]) -> Path:
    """Fetch the files `wanted` of a repository into the cache of huggingface_hub."""
    found = re.fullmatch(r"hf://(?P<name>[\w.-]+/[\w.-]+?)(?:@(?P<revision>[\w./-]+))?/?", address)
    if found is None:
        raise CheckpointError(f"{address} is not the address of a model: write hf://user/name or hf://user/name@v1")
    hub = require("huggingface_hub", "hub")
    try:
        return Path(hub.snapshot_download(found["name"], revision=found["revision"], allow_patterns=wanted))
    except Exception as error:  # network libraries have no common base class
        raise CheckpointError(f"{address} cannot be fetched: {_reason(error)}{_remedy(error)}") from error


def push_to_hub(model: Predictor, repo: str, *, private: bool = False, message: str = "Upload a horst model") -> str:
    """Upload a model to the Hub; returns the URL of the commit. The repository is created if it does not exist."""
    name = repo.removeprefix(SCHEME)
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", name):
        raise CheckpointError(f"{repo} is not the name of a repository: write user/name")
    api = require("huggingface_hub", "hub").HfApi()
    with tempfile.TemporaryDirectory() as folder:
        saved = save(model, Path(folder) / "model", name=model_title(name))
        try:
            api.create_repo(name, private=private, exist_ok=True)
            return str(api.upload_folder(repo_id=name, folder_path=saved, commit_message=message).commit_url)
        except Exception as error:
            raise CheckpointError(f"{repo} cannot be uploaded: {_reason(error)}{_remedy(error)}") from error


def _reason(error: Exception) -> str:
    """The first line of a message."""
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


def _remedy(error: Exception) -> str:
    """By class names, because versions of huggingface_hub define them in different modules."""
    kinds = {kind.__name__ for kind in type(error).__mro__}
    if kinds & {"LocalEntryNotFoundError", "OfflineModeIsEnabled", "ConnectionError"}:
        return "; the Hub cannot be reached and there is no cached copy: go online, or open a folder"
    if "RevisionNotFoundError" in kinds:
        return "; check its branches and tags, or leave the revision out"
    if "RepositoryNotFoundError" in kinds:
        return "; check the name, or log in with `hf auth login` if it is private"
    return ""


def _shipped() -> Path:
    return Path(str(files("horst") / "assets" / "models"))
