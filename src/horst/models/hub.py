"""Opening a model from wherever it is, and the Hugging Face Hub.

    somethings                    a pretrained model of the package, by name
    runs/mine                     a run: its best model
    my-model                      the folder of a saved model
    hf://user/name[@revision]     a repository of the Hugging Face Hub
    s3://bucket/name              a run or a saved model at any other address of fsspec

A folder that exists takes precedence over a name.
"""

import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from horst.errors import CheckpointError, ConfigError
from horst.extras import require
from horst.models.card import CARD, MARK, is_own_card
from horst.models.checkpoint import CONFIG, LABELS, WEIGHTS, load, read_config, save
from horst.models.predictor import Predictor, PredictorConfig
from horst.places import SCHEME, current_place, find_model, is_address, model_title, packaged_folder, split_address

REPOSITORY = r"[\w.-]+/[\w.-]+"


def open_model(source: str | Path, *, weights: str = "best", device: str | torch.device = "cpu") -> Predictor:
    """Open a model, in evaluation mode.

    Examples:
        >>> import horst
        >>> horst.open_model("somethings").num_classes
        24

    Args:
        source: The name of a pretrained model, a saved folder, a run, hf://user/name, or an address such as s3://bucket/run.
        weights: Of a run: "best" or "last".
        device: "auto" is a GPU if there is one.
    """
    where = find_device(device)
    return _load(model_folder(source, weights), where)


def open_pretrained(source: str | Path, *, device: str | torch.device = "cpu", **options: Any) -> Predictor:
    """As `open_model`, and user/name without a scheme; see `Predictor.from_pretrained`. `options` of a download."""
    where = find_device(device)
    name = str(source)
    if not is_address(source) and re.fullmatch(REPOSITORY, name) and not Path(source).exists():
        source = source if current_place(Path(source)).exists() else SCHEME + name
    return _load(model_folder(source, **options), where)


def _load(folder: Path, device: torch.device) -> Predictor:
    model = load(folder, device=device)
    if folder.parent == packaged_folder():
        model.card_data["license"] = "apache-2.0"
    return model


def open_config(source: str | Path) -> PredictorConfig:
    """The config of a saved model, without its weights."""
    return read_config(model_folder(source, wanted=[CONFIG]))


def model_folder(source: str | Path, weights: str = "best", *, wanted: list[str] | None = None, **options: Any) -> Path:
    """The folder of a saved model. `wanted`: the files to download of a repository, with `options` of the download."""
    if is_address(source):
        return download(str(source), wanted or [CONFIG, WEIGHTS, LABELS, CARD], **options)
    found = find_model(source, weights)
    assert found is not None
    return found


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


def download(address: str, wanted: list[str], **options: Any) -> Path:
    """Fetch the files `wanted` of a repository into the cache of huggingface_hub; options of `snapshot_download`."""
    name, revision = split_address(address)
    hub = require("huggingface_hub", "hub")
    options["revision"] = options.get("revision") or revision
    try:
        with _bars_in_terminals():
            folder = Path(hub.snapshot_download(name, allow_patterns=wanted, **options))
    except Exception as error:  # network libraries have no common base class
        raise CheckpointError(f"{address} cannot be fetched: {_reason(error)}{_remedy(error)}") from error
    for file in wanted:
        if file in (CONFIG, WEIGHTS) and not (folder / file).is_file():
            remedy = "open a repository that `push_to_hub` made, or go online if only a part of it is cached"
            raise CheckpointError(f"{address} has no {file}, so it is not a saved model of horst: {remedy}")
    return folder


def push_to_hub(
    model: Predictor,
    repo_id: str,
    *,
    metadata: Mapping[str, Any] | None = None,
    private: bool | None = None,
    token: str | None = None,
    branch: str | None = None,
    **options: Any,
) -> str:
    """Upload a model to the Hub; returns the URL of the commit. See `Predictor.push_to_hub`."""
    name = repo_id.removeprefix(SCHEME)
    if not re.fullmatch(r"[\w.-]+(/[\w.-]+)?", name):
        raise CheckpointError(f"{repo_id} is not the name of a repository: write user/name")
    hub = require("huggingface_hub", "hub")
    api = hub.HfApi(token=token)
    with tempfile.TemporaryDirectory() as folder:
        saved = save(model, Path(folder) / "model", name=model_title(name), metadata=metadata)
        try:
            name = api.create_repo(name, private=private, exist_ok=True).repo_id
            if branch is not None:
                api.create_branch(name, branch=branch, exist_ok=True)
            if is_own_card(_remote_card(api, name, branch, Path(folder))):
                (saved / CARD).unlink()
            with _bars_in_terminals():
                done = api.upload_folder(repo_id=name, folder_path=saved, revision=branch, **options)
            return str(done.commit_url)
        except Exception as error:
            raise CheckpointError(f"{name} cannot be uploaded: {_reason(error)}{_remedy(error)}") from error


def _remote_card(api: Any, name: str, branch: str | None, folder: Path) -> str:
    """The card of a repository; if there is none, one that may be replaced."""
    if not api.file_exists(name, CARD, revision=branch):
        return MARK
    return Path(api.hf_hub_download(name, CARD, revision=branch, local_dir=folder / "remote")).read_text("utf-8")


@contextmanager
def _bars_in_terminals() -> Iterator[None]:
    """Progress bars of huggingface_hub would fill a log with control characters."""
    utils = require("huggingface_hub.utils", "hub")
    if sys.stderr.isatty() or utils.are_progress_bars_disabled():
        yield
        return
    utils.disable_progress_bars()
    try:
        yield
    finally:
        utils.enable_progress_bars()


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
    status = getattr(getattr(error, "response", None), "status_code", None)
    if status in (401, 403) or "LocalTokenNotFoundError" in kinds:
        return "; log in with `hf auth login` and a token that has write access"
    return ""
