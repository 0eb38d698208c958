"""Data sources: what every data set can do, and the registry of their names.

A source is a function, registered under a name, that returns `Annotations` or a `Source`. Its parameters are the
options of the data config; see docs/guides/data.md.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

from horst.data.clips import Clip, ClipConfig, clip_times, open_images, read_clip
from horst.data.config import DataConfig
from horst.data.example import Annotations, Example
from horst.data.folds import refold
from horst.errors import ConfigError, VideoError
from horst.io import file_stamp
from horst.registry import Registry
from horst.video.frame import is_image_sequence

T = TypeVar("T")
Depth = Literal["files", "headers", "frames"]  # what a check opens: nothing, the headers of files, or all frames
SYNTHETIC = ("somethings", "kitchen")  # sources that make their data if it is missing
MANY_FILES = 1000  # A progress bar is shown if more files are opened


class Source:
    """A data set: its annotations, and the clips of its examples.

    This class reads the video, or the folder or tar file of images, of each example. A subclass overrides `read`, and
    the other methods if the defaults do not fit.
    """

    map: tuple[int, int, int] | None = None  # channels, height and width of precomputed maps; None if clips are images
    shared_media = False  # whether one folder or file holds the clips of all examples: `Example.media` is the same
    not_made: str | None = None  # a sentence, if the data is only planned; see `open_source`

    def __init__(self, annotations: Annotations) -> None:
        self.annotations = annotations

    def read(self, example: Example, config: ClipConfig) -> Clip:
        """The clip of an example; VideoError if it cannot be read, InputError if nothing precedes the action."""
        return read_clip(example, self.annotations.task, config)

    def check(self, config: ClipConfig) -> None:
        """ConfigError if the source cannot give such clips."""

    def problems(self, config: ClipConfig, depth: Depth = "headers") -> list[tuple[str, str]] | None:
        """(example or video, reason) of what cannot be read. None: that is known only after opening every file."""
        return None

    def lengths(self, examples: Sequence[Example], config: ClipConfig) -> list[int | None]:
        """Recognition: the number of frames of each clip, without decoding it; None if it is unknown."""
        spans = zip(examples, self._ends(examples), strict=True)
        return [None if end is None else len(clip_times(e.start, max(end, e.start), config)) for e, end in spans]

    def media_stamps(self, examples: Sequence[Example]) -> dict[Path, tuple[str, str]]:
        """(name, stamp) of each media file or folder. The name is the same on all machines; see `file_stamp`."""
        names = media_names(examples)
        stamps = _map_files(file_stamp, list(names))
        return {media: (name, stamp) for (media, name), stamp in zip(names.items(), stamps, strict=True)}

    def with_annotations(self, annotations: Annotations) -> Self:
        """The same clips with other annotations, such as those of a fold."""
        changed = copy(self)
        changed.annotations = annotations
        return changed

    def _ends(self, examples: Sequence[Example]) -> list[float | None]:
        """Seconds at which each clip ends; None if unknown, 0 if it does not open."""
        open_ended = list({example.media: example for example in examples if example.end is None}.values())
        durations = dict(zip([e.media for e in open_ended], _map_files(_duration, open_ended), strict=True))
        return [e.end if e.end is not None else durations[e.media] for e in examples]


def media_names(examples: Sequence[Example]) -> dict[Path, str]:
    """Names of media that are the same on all machines: their paths from the folder that they have in common."""
    media = list(dict.fromkeys(e.media for e in examples))
    base = os.path.commonpath({os.path.abspath(path.parent) for path in media}) if media else ""
    return {path: Path(os.path.relpath(path, base)).as_posix() for path in media}


def _map_files(function: Callable[[T], Any], files: Sequence[T]) -> Iterator[Any]:
    """`function` of each file in 8 threads: network disks answer many requests at once, and FFmpeg needs no GIL."""
    from horst.console import progress

    with progress(transient=True, disable=len(files) < MANY_FILES) as bar, ThreadPoolExecutor(8) as pool:
        yield from bar.track(pool.map(function, files), len(files), description="looking at files")


def _duration(example: Example) -> float | None:
    try:
        if is_image_sequence(example.media):
            return open_images(example).duration
        from horst.video import VideoFile  # packed data is read without FFmpeg

        with VideoFile(example.media, threads=1) as video:
            return video.info.duration
    except (VideoError, OSError):
        return 0.0


SOURCES: Registry[Callable[..., Annotations | Source]] = Registry(
    "data source",
    {
        "ssv2": "horst.data.readers.ssv2:read_ssv2",
        "epic": "horst.data.readers.epic:read_epic",
        "folder": "horst.data.readers.folder:read_folder",
        "csv": "horst.data.readers.folder:read_csv",
        "cad120": "horst.data.readers.cad120:read_cad120",
        "packed": "horst.data.packed:Packed",
        "features": "horst.data.features:open_features",
        "rulstm_lmdb": "horst.data.readers.rulstm:read_rulstm",
        "lstr": "horst.data.readers.lstr:read_lstr",
        "ms_tcn": "horst.data.readers.ms_tcn:read_ms_tcn",
        "somethings": "horst.synth.make:open_somethings",
        "kitchen": "horst.synth.make:open_kitchen",
    },
)
register_source = SOURCES.register


def open_source(config: DataConfig, *, planned: bool = False) -> Source:
    """Open a data set: its annotations are read; clips are decoded when they are needed.

    `planned`: synthetic data that is not made yet has its annotations, but no clips.
    """
    module, _, name = config.source.rpartition(":")
    if module:
        try:
            import_module(module)
        except ImportError as error:
            remedy = "install it, or add its folder to PYTHONPATH"
            raise ConfigError(f"{module} of source {config.source!r} cannot be imported ({error}): {remedy}") from error
    plan = {"planned": True} if planned and name in SYNTHETIC else {}
    source = SOURCES.create(name, **config.options, **plan)
    source = Source(source) if isinstance(source, Annotations) else source
    if config.fold is None:
        return source
    by_media = not source.shared_media
    return source.with_annotations(refold(source.annotations, **asdict(config.fold), by_media=by_media))
