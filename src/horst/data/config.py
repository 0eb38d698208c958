"""The data config: which data set, and what its clips look like. A small YAML file; see docs/guides/data.md."""

from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from horst.config import from_dict, read_yaml, to_dict
from horst.data.clips import ClipConfig
from horst.errors import ConfigError
from horst.io import is_url

PATHS = (
    "annotations",
    "videos",
    "media",
    "root",
    "path",
    "folder",
    "subset",
    "cache",
    "data_info",
)  # options that are paths, of any source


@dataclass(frozen=True, kw_only=True, slots=True)
class Fold:
    """Cross-validation: which part of train and val is for validation. See `horst.data.folds`."""

    count: int  # number of folds
    index: int = 0  # the fold that is for validation, from 0
    seed: int = 0  # of the assignment; the same for all folds of a cross-validation

    def __post_init__(self) -> None:
        if self.count < 2:
            raise ConfigError(f"fold.count is {self.count}; it takes a whole number from 2 on, or leave fold out")
        if not 0 <= self.index < self.count:
            raise ConfigError(f"fold.index is {self.index}; with {self.count} folds it is one of 0..{self.count - 1}")


@dataclass(frozen=True, kw_only=True, slots=True)
class DataConfig:
    """A data set: the name of its source, the options of that source, and the form of its clips."""

    source: str
    options: dict[str, Any] = field(default_factory=dict)
    clip: ClipConfig = field(default_factory=ClipConfig)
    fold: Fold | None = None  # None: the train and val splits of the source
    unset: frozenset[str] = field(default=frozenset(), compare=False)
    """Those of `size` and `fps` that a file left out: an evaluated model replaces these defaults of `clip`."""

    def clip_for(self, *, size: tuple[int, int], fps: float) -> ClipConfig:
        """The clips for a model that was made for `size` and `fps`: what the config leaves out is the model's."""
        default, model = ClipConfig(), dict[str, Any](size=size, fps=fps)
        unset = [name for name in self.unset if getattr(self.clip, name) == getattr(default, name)]
        return replace(self.clip, **{name: model[name] for name in unset})

    @classmethod
    def from_dict(cls, data: Any, *, base: Path | None = None) -> Self:
        """From plain data; relative paths are resolved against `base`."""
        if not isinstance(data, dict) or not isinstance(data.get("source"), str):
            raise ConfigError(f"a data config is a mapping with a source; got {data!r}")
        clip, fold = data.get("clip", {}), data.get("fold")
        from_dict(ClipConfig, clip, "clip")
        return cls(
            source=data["source"],
            options=_resolve({key: data[key] for key in data if key not in ("source", "clip", "fold")}, base or Path()),
            clip=ClipConfig(**clip),  # with numbers as they were written: digests of cached clips depend on them
            fold=None if fold is None else from_dict(Fold, fold, "fold"),
            unset=frozenset({"size", "fps"} - set(clip)),
        )

    @classmethod
    def from_entry(cls, data: Any, where: str, base: Path | None = None) -> Self:
        """From an entry of a larger config; relative paths are resolved against `base`."""
        try:
            return cls.from_dict(data, base=base)
        except ConfigError as error:
            raise ConfigError(f"{where}: {error}") from error

    @classmethod
    def from_file(cls, path: str | Path) -> Self:
        return cls.from_entry(read_yaml(Path(path)), str(path), Path(path).parent)

    def to_dict(self) -> dict[str, Any]:
        """Plain data with absolute paths."""
        fold = {} if self.fold is None else {"fold": asdict(self.fold)}
        return {"source": self.source, **_resolve(self.options, Path.cwd()), **fold, "clip": to_dict(self.clip)}


def _resolve(options: dict[str, Any], base: Path) -> dict[str, Any]:
    paths = {key: options[key] for key in PATHS if isinstance(options.get(key), str) and not is_url(options[key])}
    return options | {key: str(base / Path(path).expanduser()) for key, path in paths.items()}
