"""Which data set, and what its clips look like: one small YAML file for any of the sources.

    source: ssv2                       # or epic, folder, csv, packed, features, rulstm_lmdb, somethings, kitchen
    annotations: /data/ssv2/labels     # the options of that source: see the functions in SOURCES
    videos: /data/ssv2/videos
    clip: {size: [224, 224], fps: 12, observe: 0.25}
    fold: {count: 5, index: 0}         # where wanted: cross-validation over train and val

Paths are relative to the file that names them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import asdict, dataclass, field, fields, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from horst.config import from_dict, read_yaml
from horst.data.clips import Clip, ClipConfig, read_clip
from horst.data.example import Annotations, Example
from horst.data.features import FeatureClip, Features
from horst.data.folds import refold
from horst.data.packed import Packed
from horst.data.readers.epic import read_epic
from horst.data.readers.folder import read_csv, read_folder
from horst.data.readers.lmdb_features import RulstmFeatures, read_rulstm
from horst.data.readers.ssv2 import read_ssv2
from horst.errors import ConfigError, did_you_mean
from horst.registry import Registry

Opened = Packed | Features | RulstmFeatures
"""Data sets that bring their own way to read a clip."""


def open_somethings(
    folder: str | Path, clips: int = 1000, seed: int = 0, size: int = 112, templates: int = 0, packed: bool = True
) -> Annotations | Opened:
    """`make_somethings`, which makes what is missing, and what it made."""
    made = import_module("horst.synth.make").make_somethings(
        folder, clips, seed=seed, size=size, templates=templates, packed=packed
    )
    return _open(DataConfig.from_file(made))


def open_kitchen(
    folder: str | Path, videos: int = 40, seed: int = 0, size: Sequence[int] = (128, 228), packed: bool = True
) -> Annotations | Opened:
    """`make_kitchen`, which makes what is missing, and what it made."""
    made = import_module("horst.synth.make").make_kitchen(folder, videos, seed=seed, size=size, packed=packed)
    return _open(DataConfig.from_file(made))


SOURCES: Registry[Callable[..., Annotations | Opened]] = Registry(
    "data source",
    {
        "ssv2": read_ssv2,
        "epic": read_epic,
        "folder": read_folder,
        "csv": read_csv,
        "packed": Packed,
        "features": Features,
        "rulstm_lmdb": read_rulstm,
        "somethings": open_somethings,
        "kitchen": open_kitchen,
    },
)
PATHS = ("annotations", "videos", "media", "root", "path", "folder", "subset")


@dataclass(frozen=True, kw_only=True, slots=True)
class Fold:
    """Cross-validation: which part of train and val, put together, is for validation. See `horst.data.folds`."""

    count: int
    """How many folds there are."""
    index: int = 0
    """Of the one that is for validation, from 0."""
    seed: int = 0
    """Of how examples are dealt out; the same for all folds of a cross-validation."""

    def __post_init__(self) -> None:
        if self.count < 2:
            raise ConfigError(f"fold.count is {self.count}; it takes a whole number from 2 on, or leave fold out")
        if not 0 <= self.index < self.count:
            raise ConfigError(f"fold.index is {self.index}; with {self.count} folds it is one of 0..{self.count - 1}")


@dataclass(frozen=True, kw_only=True, slots=True)
class DataConfig:
    """A data set by its source and the options of that source."""

    source: str
    options: dict[str, Any] = field(default_factory=dict)
    clip: ClipConfig = field(default_factory=ClipConfig)
    fold: Fold | None = None
    """None: train and val are those of the source."""
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
        options = {key: value for key, value in data.items() if key not in ("source", "clip", "fold")}
        for key in PATHS:
            if isinstance(options.get(key), str):
                options[key] = str((base or Path()) / Path(options[key]).expanduser())
        clip = _clip(data.get("clip", {}))
        unsaid = frozenset({"size", "fps"} - set(data.get("clip", {})))
        fold = None if data.get("fold") is None else from_dict(Fold, data["fold"], "fold")
        return cls(source=data["source"], options=options, clip=clip, fold=fold, unsaid=unsaid)

    @classmethod
    def from_entry(cls, data: Any, where: str) -> DataConfig:
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
        fold = {} if self.fold is None else {"fold": asdict(self.fold)}
        return {"source": self.source, **options, **fold, "clip": clip}

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
    opened: Opened | None = None
    """What holds all clips; None where each example has its own media."""


def open_source(config: DataConfig) -> Source:
    """Read the annotations of a data set; clips are decoded when they are asked for."""
    opened = _open(config)
    if config.fold is not None:
        opened = _folded(opened, config.fold)
    if isinstance(opened, Opened):
        return Source(opened.annotations, opened.read, opened)
    return Source(opened, partial(_read, opened.task))


def _open(config: DataConfig) -> Annotations | Opened:
    return SOURCES.create(config.source, **config.options)


def _folded(opened: Annotations | Opened, fold: Fold) -> Annotations | Opened:
    if isinstance(opened, Annotations):
        return refold(opened, **asdict(fold))
    annotations = refold(opened.annotations, **asdict(fold), by_media=False)  # one folder holds them all
    if isinstance(opened, Packed | Features):
        return opened.moved(annotations)
    found = copy(opened)
    found.annotations = annotations
    return found


def _read(task: Any, example: Example, config: ClipConfig) -> Clip:
    return read_clip(example, task, config)


def _clip(data: Any) -> ClipConfig:
    known = [f.name for f in fields(ClipConfig)]
    if not isinstance(data, dict):
        raise ConfigError(f"clip is {data!r}; it takes a mapping of {', '.join(known)}")
    for name in data:
        if name not in known:
            raise ConfigError(f"clip has no option {name!r}{did_you_mean(name, known)}")
    try:
        return ClipConfig(**data)
    except TypeError as error:
        raise ConfigError(f"clip is {data!r}: {error}") from error
