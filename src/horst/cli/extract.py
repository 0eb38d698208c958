"""`horst extract`: a backbone's maps of a data set, stored for training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from horst.backbones import Backbone, BNInception, create_backbone, load_tsn, read_tsn
from horst.cli.data import print_bad
from horst.console import Console
from horst.data.config import DataConfig
from horst.data.extract import extract
from horst.errors import ConfigError
from horst.models.hub import find_device, open_model


def run(
    data: str,
    folder: str,
    backbone: str,
    options: dict[str, Any],
    weights: str | None,
    *,
    part: int,
    parts: int,
    batch: int,
    device: str,
) -> None:
    where = find_device(device)
    config = DataConfig.from_file(data)
    network = _backbone(backbone, options, weights)
    report = extract(config, network, folder, part=part, parts=parts, batch=batch, device=where)
    console = Console()
    console.print(f"{report.videos} videos of part {part} of {parts} are in {folder}")
    print_bad(console, "could not be read", report.bad)


def _backbone(name: str, options: dict[str, Any], weights: str | None) -> Backbone:
    if weights is not None and not Path(weights).is_file():
        return open_model(weights).backbone
    network = create_backbone(name, **options)
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
