"""Which data set, and what its clips look like: one small YAML file for any of the sources.

    source: ssv2                       # or epic, folder, csv, packed, features, rulstm_lmdb, somethings, kitchen
    annotations: /data/ssv2/labels     # the options of that source: see the functions in SOURCES
    videos: /data/ssv2/videos
    clip: {size: [224, 224], fps: 12, observe: 0.25}

Paths are relative to the file that names them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

from horst.data.clips import Clip, ClipConfig, read_clip
from horst.data.epic import read_epic
from horst.data.example import Annotations, Example
from horst.data.features import FeatureClip, Features
from horst.data.folder import read_csv, read_folder
from horst.data.lmdb_features import RulstmFeatures, read_rulstm
from horst.data.make import make_kitchen, make_somethings
from horst.data.packed import Packed
from horst.data.ssv2 import read_ssv2
from horst.errors import ConfigError, near
from horst.plain import read_yaml
from horst.registry import build

Opened = Packed | Features | RulstmFeatures
"""Data sets that bring their own way to read a clip."""


def open_somethings(
    folder: str | Path, clips: int = 1000, seed: int = 0, size: int = 112, templates: int = 0, packed: bool = True
) -> Annotations | Opened:
    """`make_somethings`, which makes what is missing, and what it made."""
    made = make_somethings(folder, clips, seed=seed, size=size, templates=templates, packed=packed)
    return _open(DataConfig.from_file(made))


def open_kitchen(
    folder: str | Path, videos: int = 40, seed: int = 0, size: Sequence[int] = (128, 228), packed: bool = True
) -> Annotations | Opened:
    """`make_kitchen`, which makes what is missing, and what it made."""
    return _open(DataConfig.from_file(make_kitchen(folder, videos, seed=seed, size=size, packed=packed)))


SOURCES: dict[str, Callable[..., Annotations | Opened]] = {
    "ssv2": read_ssv2,
    "epic": read_epic,
    "folder": read_folder,
    "csv": read_csv,
    "packed": Packed,
    "features": Features,
    "rulstm_lmdb": read_rulstm,
    "somethings": open_somethings,
    "kitchen": open_kitchen,
}
PATHS = ("annotations", "videos", "media", "root", "path", "folder", "subset")


@dataclass(frozen=True, kw_only=True, slots=True)
class DataConfig:
    """A data set by its source and the options of that source."""

    source: str
    options: dict[str, Any] = field(default_factory=dict)
    clip: ClipConfig = field(default_factory=ClipConfig)
    unsaid: frozenset[str] = field(default=frozenset(), compare=False)
    """Of `size` and `fps`, what a file left out: `clip` has a default there, which an evaluated model overrides."""

    def clip_for(self, *, size: tuple[int, int], fps: float) -> ClipConfig:
        """How to show clips to a model that was made for `size` and `fps`: as the data say, and else as it was made."""
        clip, default = self.clip, ClipConfig()
        if "size" in self.unsaid and clip.size == default.size:
            clip = replace(clip, size=size)
        if "fps" in self.unsaid and clip.fps == default.fps:
            clip = replace(clip, fps=fps)
        return clip

    @classmethod
    def from_dict(cls, data: Any, *, base: Path | None = None) -> DataConfig:
        """From plain data; relative paths are taken from `base`."""
        if not isinstance(data, dict) or not isinstance(data.get("source"), str):
            raise ConfigError(f"a data config is a mapping with a source: {', '.join(SOURCES)}; got {data!r}")
        options = {key: value for key, value in data.items() if key not in ("source", "clip")}
        for key in PATHS:
            if isinstance(options.get(key), str):
                options[key] = str((base or Path()) / Path(options[key]).expanduser())
        clip = _clip(data.get("clip", {}))
        unsaid = frozenset({"size", "fps"} - set(data.get("clip", {})))
        return cls(source=data["source"], options=options, clip=clip, unsaid=unsaid)

    @classmethod
    def from_plain(cls, data: Any, where: str) -> DataConfig:
        """As part of a larger config."""
        try:
            return cls.from_dict(data)
        except ConfigError as error:
            raise ConfigError(f"{where}: {error}") from error

    def to_dict(self) -> dict[str, Any]:
        """Plain data that means the same from any folder: paths are absolute."""
        options = dict(self.options)
        for key in PATHS:
            if isinstance(options.get(key), str):
                options[key] = str(Path(options[key]).absolute())
        clip = {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self.clip).items()}
        return {"source": self.source, **options, "clip": clip}

    @classmethod
    def from_file(cls, path: str | Path) -> DataConfig:
        path = Path(path)
        data = read_yaml(path)
        try:
            return cls.from_dict(data, base=path.parent)
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from error


@dataclass(frozen=True, slots=True)
class Source:
    """An opened data set: its annotations, and how to read a clip of it."""

    annotations: Annotations
    read: Callable[[Example, ClipConfig], Clip | FeatureClip]


def open_source(config: DataConfig) -> Source:
    """Read the annotations of a data set; clips are decoded when they are asked for."""
    opened = _open(config)
    if isinstance(opened, Opened):
        return Source(opened.annotations, opened.read)
    return Source(opened, partial(_read, opened.task))


def _open(config: DataConfig) -> Annotations | Opened:
    return build("data source", SOURCES, config.source, **config.options)


def _read(task: Any, example: Example, config: ClipConfig) -> Clip:
    return read_clip(example, task, config)


def _clip(data: Any) -> ClipConfig:
    known = [f.name for f in fields(ClipConfig)]
    if not isinstance(data, dict):
        raise ConfigError(f"clip is {data!r}; it takes a mapping of {', '.join(known)}")
    for name in data:
        if name not in known:
            raise ConfigError(f"clip has no option {name!r}{near(str(name), known)}")
    try:
        return ClipConfig(**data)
    except TypeError as error:
        raise ConfigError(f"clip is {data!r}: {error}") from error
