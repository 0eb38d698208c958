"""`horst study NAME --videos FOLDER`: make the data of a study's runs, feature maps or packed frames, from videos."""

from collections.abc import Iterable
from pathlib import Path

from horst.backbones import create_backbone
from horst.console import Console, print_bad, working
from horst.data import packed
from horst.data.config import DataConfig
from horst.data.extract import extract
from horst.data.features import FeatureStore
from horst.data.source import open_source
from horst.errors import ConfigError, DataError
from horst.io import INDEX, is_url
from horst.studies.config import Videos
from horst.training.speed import cpu_threads

MADE = ("features", "packed")  # sources whose folders can be made from videos


def make_data(videos: Videos, folder: Path, configs: Iterable[DataConfig], console: Console) -> None:
    """Make the feature stores and packed sets that `configs` read. What is finished stays.

    On a CPU, and with one thread: a GPU, or another number of threads, changes the last digits of maps.
    """
    places = sorted(_places(configs))
    if not places:
        raise ConfigError("no run reads feature maps or packed frames from a folder here: leave --videos out")
    data = DataConfig.from_dict({**videos.data, "folder": str(folder)})
    for example in open_source(data).annotations.examples:  # or the study would be of fewer videos, perhaps unnoticed
        if not example.media.exists():
            raise DataError(f"{example.media} is missing: the folder needs every video of its annotations")
    for source, place in places:
        if source == "packed":
            _, bad = packed.pack(data, place, quality=videos.quality)
        else:
            with working("loading the backbone"):
                backbone = create_backbone(**videos.backbone)
            with cpu_threads(1):
                bad = list(extract(data, backbone, place).bad)
        print_bad(console, "could not be read", bad)


def check_data_exists(command: str, configs: Iterable[DataConfig]) -> None:
    """ConfigError if data are missing or not complete. `command`, which the message names, makes them."""
    for source, place in sorted(_places(configs)):
        complete = (place / INDEX).is_file() and (
            packed.is_complete(place) if source == "packed" else not FeatureStore(place).missing()
        )
        if not complete:
            raise ConfigError(f"{place} has no complete data yet: {command} makes it from videos")


def _places(configs: Iterable[DataConfig]) -> set[tuple[str, Path]]:
    """Source and folder of the data that can be made. Those of a fold are made from its training data, not here."""
    made = ((config.source, config.options.get("folder")) for config in configs if config.source in MADE)
    return {
        (source, Path(folder))
        for source, folder in made
        if isinstance(folder, str) and not is_url(folder) and "{fold}" not in folder
    }
