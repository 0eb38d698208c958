"""`horst extract`: a backbone's maps of a data set, stored for training."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from horst.cli.data import print_bad
from horst.cli.options import Device, Source
from horst.console import Console
from horst.errors import ConfigError

if TYPE_CHECKING:
    from horst.backbones import Backbone


def extract(
    data: Path,
    folder: Path,
    /,
    *,
    backbone: str = "bn_inception",
    options: Annotated[str, Parameter(show_default=False)] = "{}",
    weights: Source | None = None,
    part: int = 0,
    parts: int = 1,
    batch: int = 16,
    device: Device = "cpu",
) -> None:
    """Run a backbone over all frames that a data set's clips show, and store its maps (fp16) for training.

    Args:
        data: The data set's YAML file.
        folder: Output folder; a run that was stopped continues.
        backbone: Name of the backbone: bn_inception, efficientnet_lite0, stem or timm.
        options: Its options, such as {pretrained: true}.
        weights: RULSTM's TSN checkpoint for bn_inception, or a model (folder, run, hf://user/name) with a backbone.
        part: Which part of the work this process does, from 0.
        parts: Number of parts, one for each process or machine.
        batch: Frames in a batch.
    """
    from horst.data.config import DataConfig
    from horst.data.extract import extract
    from horst.models.hub import find_device

    where = find_device(device)
    config = DataConfig.from_file(data)
    network = _backbone(backbone, options, weights)
    report = extract(config, network, folder, part=part, parts=parts, batch=batch, device=where)
    console = Console()
    console.print(f"{report.videos} videos of part {part} of {parts} are in {folder}")
    print_bad(console, "could not be read", report.bad)


def _backbone(name: str, options: str, weights: Source | None) -> Backbone:
    import yaml

    from horst.backbones import BNInception, create_backbone, load_tsn, read_tsn
    from horst.models import open_model

    if weights is not None and not Path(weights).is_file():
        return open_model(weights).backbone
    try:
        chosen = dict(yaml.safe_load(options))
    except (yaml.YAMLError, TypeError, ValueError) as error:
        raise ConfigError(f"--options is {options!r}; it takes a mapping such as {{pretrained: true}}") from error
    network = create_backbone(name, **chosen)
    if weights is None:
        if name in ("bn_inception", "stem"):
            raise ConfigError(
                f"{name} has random weights: pass --weights, a checkpoint of RULSTM's TSN or a saved model"
            )
        return network
    if not isinstance(network, BNInception):
        raise ConfigError(f"--weights is for bn_inception, or a saved model; {name} takes none")
    load_tsn(network, read_tsn(Path(weights)))
    return network
