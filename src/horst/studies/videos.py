"""`horst study NAME --videos FOLDER`: make what the runs of a study read, maps or packed frames, of videos."""

from collections.abc import Iterable
from pathlib import Path

from horst.backbones import create_backbone
from horst.console import Console, print_bad, working
from horst.data.config import DataConfig
from horst.data.extract import extract
from horst.data.packed import pack
from horst.data.source import open_source
from horst.errors import ConfigError
from horst.io import INDEX, is_url
from horst.studies.config import Videos
from horst.training.speed import cpu_threads

MADE = ("features", "packed")  # sources whose folders can be made of videos


def make_data(videos: Videos, folder: Path, configs: Iterable[DataConfig], console: Console) -> None:
    """Make the feature stores and packed sets that `configs` read. What is finished stays.

    On a CPU, and with one thread: a GPU, or another number of threads, changes the last digits of maps.
    """
    data = DataConfig.from_dict({**videos.data, "folder": str(folder)})
    open_source(data)  # what is wrong with the folder is reported before the backbone is loaded
    for source, place in sorted(_places(configs)):
        if source == "packed":
            _, bad = pack(data, place, quality=videos.quality)
        else:
            with working("loading the backbone"):
                backbone = create_backbone(**videos.backbone)
            with cpu_threads(1):
                bad = list(extract(data, backbone, place).bad)
        print_bad(console, "could not be read", bad)


def check_data_exists(study: str, configs: Iterable[DataConfig]) -> None:
    """ConfigError if there is no data yet, with the command that makes them."""
    for _, place in sorted(_places(configs)):
        if not (place / INDEX).is_file():
            raise ConfigError(f"{place} has no data yet: horst study {study} --videos FOLDER makes them of videos")


def _places(configs: Iterable[DataConfig]) -> set[tuple[str, Path]]:
    """Source and folder of the data that can be made."""
    made = ((config.source, config.options.get("folder")) for config in configs if config.source in MADE)
    return {(source, Path(folder)) for source, folder in made if isinstance(folder, str) and not is_url(folder)}
