"""The packed format: a data set as a few large files, which are read with numpy and Pillow alone, without FFmpeg.

    index.json            classes, how clips were sampled, and the number of shards
    shard-00000.jpgs      the frames of some clips as JPEG, one after the other
    shard-00000.tar       instead of it, if asked for: the same frames in a tar file that WebDataset reads
    shard-00000.json      the clips of the shard: where each frame begins, its time and its CRC-32

In a tar file, clip 3 of shard 0 has the files 00000-003.0000.jpg, 00000-003.0001.jpg, ... and 00000-003.json (id,
split, labels, times): one sample of WebDataset. Here frames are read at their offsets, as in the other form.

Each shard is written atomically, its .json last: after a kill, a second run writes those that are missing.
"""

import hashlib
import json
import math
import os
import tarfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from horst.config import from_dict
from horst.data.clips import EPIC_FPS, Clip, ClipConfig, clip_times, every_nth, seen_frames
from horst.data.config import DataConfig
from horst.data.example import FIT_SPLITS, Annotations, Example
from horst.data.folds import Link, connected, links
from horst.data.jobs import run_jobs
from horst.data.shards import open_shards
from horst.data.source import Depth, Source, media_names, open_source
from horst.errors import ConfigError, DamagedVideoError, DataError, HorstError, InputError, VideoError
from horst.io import INDEX, MISSING, atomic_write, claim_folder, disk_errors, file_stamp, read_checked, write_checked
from horst.video.images import decode_picture, encode_picture
from horst.video.sampling import UNOBSERVED, frames_at

FORMAT = 1
CLIPS_PER_SHARD = 64
MAX_STILL = 60.0  # seconds by which a clip may be longer than its frames: an image may stand still
MAX_TIME = 1e6  # Seconds (eleven days). No clip is longer, and a damaged file that says so would take all memory.
ReadClips = Callable[[Sequence[Example]], Iterator[Clip | HorstError]]
"""The clips of some examples in order, with an error in place of a clip that cannot be read."""


class StoredClip(NamedTuple):
    """Where the frames of a clip are."""

    shard: str  # name of the file
    offsets: list[int]  # bytes in the shard; frame i ends at or before the beginning of frame i + 1
    times: NDArray[np.float64]  # seconds in the media; NaN where unobserved
    checksums: list[int] | None  # CRC-32 of each frame; None in sets of older versions
    sizes: list[int] | None = None  # bytes of each frame; None if it ends where the next one begins


def write_packed(
    folder: str | Path,
    annotations: Annotations,
    read_clips: ReadClips,
    *,
    fps: float,
    clip: ClipConfig | None = None,
    native: bool = False,
    quality: int = 90,
    tar: bool = False,
    processes: int | None = None,
) -> list[tuple[str, str]]:
    """Pack all examples into `folder`, or continue a run. Returns (id, reason) of clips that could not be read.

    Shards whose media changed since an earlier run are packed again; those whose media are gone stay. `read_clips`
    reads or renders clips; it runs in other processes, so it must be picklable. `fps` is the frame rate of the clips,
    `clip` how they are sampled, so that readers can refuse what the frames do not contain, and `native` is explained in
    `Packed`. `tar`: write tar files.
    """
    if not 1 <= quality <= 95:
        raise ConfigError(f"quality is {quality}; it takes 1 to 95")
    folder = Path(folder)
    with disk_errors(folder, DataError):
        shards = _split_shards(group_by_media(annotations.examples))
        index = annotations.to_dict() | {"format": FORMAT, "fps": fps, "clips": len(annotations.examples)}
        del index["examples"]  # the shards have them
        index |= {"shards": len(shards)} | ({} if clip is None else {"clip": asdict(clip), "native": native})
        index |= {"quality": quality} | ({"tar": True} if tar else {})
        claim_folder(folder, index, "packed data set", optional=("clip", "native", "quality"))
        todo = [(number, of) for number, of in enumerate(shards) if not _is_current(folder, number, of, tar)]
        work = partial(_write_shard, folder, read_clips, quality, tar)
        run_jobs(f"packing {annotations.name}", work, todo, processes=processes, done=len(shards) - len(todo))
        written = [read_checked(folder / _shard(number, "json"))[0] for number in range(len(shards))]
        return [(c["id"], c["why"]) for shard in written for c in shard["clips"] if "why" in c]


def pack(
    config: DataConfig,
    folder: str | Path,
    *,
    quality: int = 90,
    tar: bool = False,
    processes: int | None = None,
) -> tuple[int, list[tuple[str, str]]]:
    """Pack the data set of a config, at its size and rate, or continue a run.

    Returns the number of packed clips, and (id, reason) of those that could not be read.
    """
    source = open_source(config)
    clip = replace(config.clip, observe=1.0, mode="strict")  # all that any reader of it may want
    read = partial(read_each, source.read, clip)
    options: dict[str, Any] = {"quality": quality, "tar": tar, "processes": processes}
    bad = write_packed(folder, source.annotations, read, fps=clip.fps, clip=clip, **options)
    return len(source.annotations.examples) - len(bad), bad


def is_complete(folder: Path) -> bool:
    """Whether all shards of a packed data set exist."""
    if not (folder / INDEX).exists():
        return False
    index = _read_index(folder / INDEX)[0]
    return all(_exists(folder, number, index.get("tar", False)) for number in range(index["shards"]))


def read_each(
    read: Callable[[Example, ClipConfig], Clip], config: ClipConfig, examples: Sequence[Example]
) -> Iterator[Clip | HorstError]:
    """A `ReadClips` that reads one example after the other."""
    for example in examples:
        try:
            yield read(example, config)
        except (VideoError, InputError) as error:  # damaged, or nothing precedes the action
            yield error


class Packed(Source):
    """A packed data set.

    Examples that could not be read when it was packed stay in the annotations, so that evaluation counts them; to read
    one is an error. `native`: whether frames have the size and, for recognition, the rate of the videos. `folder` may
    be an address of fsspec, such as s3://bucket/set: its files are copied into `cache` when they are needed, by default
    into that of the user (HORST_CACHE).
    """

    shared_media = True

    def __init__(self, folder: str | Path, *, cache: str | Path | None = None) -> None:
        self._shards = open_shards(folder, cache)
        self.folder = self._shards.folder
        self._shards.get(INDEX)
        index, raw = _read_index(self.folder / INDEX)
        self.fps = float(index["fps"])
        self.clip = None if index.get("clip") is None else ClipConfig(**index["clip"])  # None in sets of older versions
        self.native = index.get("native", False)
        content = hashlib.sha256(raw)
        clips: list[dict[str, Any]] = []
        stored: list[StoredClip | None] = []
        for number in range(index["shards"]):
            path = self._shards.get(_shard(number, "json"))
            if not path.exists():
                missing = f"shard {number} of {index['shards']} is missing"
                raise DataError(f"{self.folder} is not complete: {missing}; pack again")
            some, there, raw = _read_shard(path, index)
            size, changed = self._shards.stamp(_shard(number, _suffix(index)))
            has_checksums = all(one is None or one.checksums is not None for one in there)
            content.update(raw + f"{size} {0 if has_checksums else changed}".encode())
            for clip, one in zip(some, there, strict=True):
                if one is not None and one.offsets[-1] > size:
                    raise DataError(f"{path}: clip {clip['id']!r} ends after the end of its shard; pack again")
            clips, stored = clips + some, stored + there
        self.digest = content.hexdigest()[:24]  # of labels, times and images: that of a copy is the same
        for (split, ident), count in Counter((clip["split"], clip["id"]) for clip in clips).items():
            if count > 1:
                raise DataError(f"{self.folder}: the clip {ident!r} of {split} is stored twice; pack again")
        annotations = Annotations.from_dict({**index, "examples": clips}, media=self.folder)
        super().__init__(replace(annotations, examples=_separate(annotations.examples)))
        keys = [example.clip_id for example in self.annotations.examples]
        self._clips = {key: one for key, one in zip(keys, stored, strict=True) if one is not None}
        self._bad = {key: clip["why"] for key, clip in zip(keys, clips, strict=True) if "why" in clip}

    def problems(self, config: ClipConfig, depth: Depth = "headers") -> list[tuple[str, str]]:
        return [(ident, why) for (ident, *_), why in self._bad.items()]

    def media_stamps(self, examples: Sequence[Example]) -> dict[Path, tuple[str, str]]:
        return {self.folder: ("packed", self.digest)}

    def check(self, config: ClipConfig) -> None:
        """ConfigError if the stored frames are too small or of another rate."""
        if self.clip is None or self.native:
            return
        packed = f"{self.folder} was packed with"
        if any(wanted > stored for wanted, stored in zip(config.size, self.clip.size, strict=True)):
            sizes = f"clip.size {list(self.clip.size)} and clip.size is {list(config.size)}"
            raise ConfigError(f"{packed} {sizes}: choose one that is not larger, or pack again")
        if self.annotations.task != "anticipation" and every_nth(self.fps, config.fps) is None:
            rates = f"clip.fps {self.fps:g}, which is no multiple of clip.fps {config.fps:g}"
            raise ConfigError(f"{packed} {rates}: choose another, or pack again")

    def read(self, example: Example, config: ClipConfig) -> Clip:
        """The clip of an example, as `read_clip` reads it from the original."""
        self.check(config)
        if (why := self._bad.get(example.clip_id)) is not None:
            raise DamagedVideoError(f"{self.folder}, clip {example.id}", f"when it was packed: {why}")
        stored = self._clips[example.clip_id]
        times = stored.times
        if self.annotations.task != "anticipation":
            end = example.end if example.end is not None else times[-1] + 1 / self.fps
            chosen = frames_at(times, clip_times(example.start, end, config))
        else:
            chosen = self._positions(example, times, config)
        images = {}
        with self._shards.get(stored.shard).open("rb") as file:
            for i in sorted({int(i) for i in chosen if i >= 0 and not np.isnan(times[i])}):
                file.seek(stored.offsets[i])
                size = stored.offsets[i + 1] - stored.offsets[i] if stored.sizes is None else stored.sizes[i]
                data = file.read(size)
                name = f"{self.folder}, clip {example.id}, frame {i}"
                if stored.checksums is not None and zlib.crc32(data) != stored.checksums[i]:
                    damaged = f"{stored.shard} is damaged; pack again"
                    raise DamagedVideoError(name, f"its checksum does not match: {damaged}")
                images[i] = decode_picture(data, name, config.size)
        black = np.zeros((*config.size, 3), np.uint8)
        shown = np.where(chosen >= 0, times[chosen], np.nan)
        return Clip(np.stack([images.get(int(i), black) for i in chosen]), shown)

    def _ends(self, examples: Sequence[Example]) -> list[float | None]:
        stored = [self._clips.get(example.clip_id) for example in examples]
        ends = [0.0 if one is None else float(one.times[-1]) + 1 / self.fps for one in stored]
        return [e.end if e.end is not None else end for e, end in zip(examples, ends, strict=True)]

    def _positions(self, example: Example, times: NDArray[np.float64], config: ClipConfig) -> NDArray[np.int64]:
        """Anticipation: the index of the stored frame at each position; -1 where unobserved."""
        wanted = seen_frames(example, config)
        stored = np.round(times * EPIC_FPS) + 1  # older versions stored the times of the positions
        if self.clip is not None:
            stored = seen_frames(example, replace(self.clip, mode="strict")).astype(np.float64)
        found = stored[None] == wanted[:, None]  # (T, stored)
        found &= ~np.isnan(times)
        absent = (wanted != UNOBSERVED) & ~found.any(1)
        if absent.any():
            made = self.clip or ClipConfig(steps=len(times))
            there, here = (f"clip.steps {c.steps} and clip.stride {c.stride:g}" for c in (made, config))
            frame = f"no frame {wanted[absent][0]} of example {example.id}"
            packed = f"{self.folder} was packed with {there}, and has {frame}"
            raise ConfigError(f"{packed}, which {here} need: make them agree, or pack again")
        return np.where(wanted == UNOBSERVED, -1, found.argmax(1))


def group_by_media(examples: Sequence[Example]) -> list[Example]:
    """The examples, with those of one file in one group, because packed examples do not state their file.

    The group has the name of the file, or the first name if examples of the file have groups. Test examples do not
    connect others, as in `horst.data.folds`.
    """
    clips = Counter(example.media for example in examples if not example.video)
    shared = {media for media, count in clips.items() if count > 1 and not (media / INDEX).is_file()}  # not packed yet
    if not shared:
        return list(examples)
    file_names = media_names(examples)
    names: dict[Link, str] = {}
    for one in connected([example for example in examples if example.split in FIT_SPLITS]):
        groups = {e.group for e in one if e.group}
        files = {e.media for e in one if not e.group and not e.video and e.media in shared}
        if files or len(groups) > 1:
            name = min(groups or {file_names[file] for file in files})
            names |= {links(e)[0]: name for e in one}
    return [replace(e, group=names.get(links(e)[0], e.group)) for e in examples]


def _separate(examples: Sequence[Example]) -> tuple[Example, ...]:
    """The examples; those that share an id get different videos, because all have the same media."""
    count = Counter(example.id for example in examples)
    return tuple(replace(e, video=e.video or f"{e.split}/{e.id}") if count[e.id] > 1 else e for e in examples)


def _split_shards(examples: Sequence[Example]) -> list[list[Example]]:
    """Groups of CLIPS_PER_SHARD or somewhat more: the examples of a video stay together, so that it is read once."""
    shards: list[list[Example]] = []
    for example in examples:
        if not shards or (len(shards[-1]) >= CLIPS_PER_SHARD and shards[-1][-1].media != example.media):
            shards.append([])
        shards[-1].append(example)
    return shards


def _write_shard(
    folder: Path, read_clips: ReadClips, quality: int, tar: bool, job: tuple[int, Sequence[Example]]
) -> None:
    number, examples = job
    clips: list[dict[str, Any]] = []
    stamps = _media_stamps(examples)
    with atomic_write(folder / _shard(number, "tar" if tar else "jpgs")) as path, path.open("wb") as file:
        write = partial(_add_to_tar, file) if tar else lambda name, data: file.write(data)
        for place, (example, clip) in enumerate(zip(examples, read_clips(examples), strict=True)):
            if isinstance(clip, HorstError):
                clips.append({**example.to_dict(), "why": str(clip)})
                continue
            key = f"{number:05d}-{place:03d}"
            pairs = zip(clip.frames, clip.times, strict=True)
            frames = [b"" if np.isnan(time) else encode_picture(image, quality=quality) for image, time in pairs]
            offsets = []
            for i, data in enumerate(frames):
                offsets.append(file.tell() + (tarfile.BLOCKSIZE if tar and data else 0))
                if data:
                    write(f"{key}.{i:04d}.jpg", data)
            offsets.append(file.tell())
            times = [None if np.isnan(t) else round(float(t), 6) for t in clip.times]
            stored = {"offsets": offsets, "times": times, "crc32": [zlib.crc32(data) for data in frames]}
            if tar:
                stored["sizes"] = [len(data) for data in frames]
                about = {"id": example.id, "split": example.split, "labels": example.labels, "times": times}
                write(f"{key}.json", json.dumps(about).encode())
            clips.append({**example.to_dict(), **stored})
        if tar:
            file.write(bytes(2 * tarfile.BLOCKSIZE))  # the end of a tar file
        file.flush()
        os.fsync(file.fileno())
    write_checked(folder / _shard(number, "json"), {"made_of": stamps, "clips": clips})


def _add_to_tar(file: BinaryIO, name: str, data: bytes) -> None:
    """A header of one block, the data, and zeros up to a whole block."""
    entry = tarfile.TarInfo(name)
    entry.size = len(data)
    file.write(entry.tobuf(tarfile.USTAR_FORMAT) + data + bytes(-len(data) % tarfile.BLOCKSIZE))


def _media_stamps(examples: Sequence[Example]) -> list[str]:
    return [file_stamp(media) for media in dict.fromkeys(e.media for e in examples)]


def _is_current(folder: Path, number: int, examples: Sequence[Example], tar: bool) -> bool:
    """Whether a shard exists and its media are unchanged or gone. Shards of older versions do not state their media."""
    if not _exists(folder, number, tar):
        return False
    stamps = read_checked(folder / _shard(number, "json"))[0].get("made_of")
    now = _media_stamps(examples)
    return stamps is None or (
        len(stamps) == len(now) and all(new in (MISSING, old) for old, new in zip(stamps, now, strict=True))
    )


def _exists(folder: Path, number: int, tar: bool) -> bool:
    return all((folder / _shard(number, suffix)).exists() for suffix in ("json", "tar" if tar else "jpgs"))


def _shard(number: int, suffix: str) -> str:
    return f"shard-{number:05d}.{suffix}"


def _suffix(index: dict[str, Any]) -> str:
    return "tar" if index.get("tar") else "jpgs"


def _read_index(path: Path) -> tuple[dict[str, Any], bytes]:
    """The index, and the bytes of its file."""
    index, raw = read_checked(path)
    if index.get("format") != FORMAT:
        raise DataError(f"{path} is not of format {FORMAT}: it is no packed data set of this version")
    try:
        _need(_is_number(index.get("fps")) and 0 < index["fps"] <= MAX_TIME, "fps", index.get("fps"))
        _need(type(index.get("shards")) is int and index["shards"] >= 0, "shards", index.get("shards"))
        for name in ("native", "tar"):
            _need(isinstance(index.get(name, False), bool), name, index.get(name))
        if index.get("clip") is not None:
            from_dict(ClipConfig, index["clip"], "clip")
    except ValueError as error:
        raise DataError(f"{path} is damaged ({error}); pack again") from error
    return index, raw


def _read_shard(path: Path, index: dict[str, Any]) -> tuple[list[dict[str, Any]], list[StoredClip | None], bytes]:
    """The entries of the clips in a shard, where their frames are (None: unreadable), and the bytes of the file."""
    shard, raw = read_checked(path)
    clips = shard.get("clips")
    if not isinstance(clips, list):
        raise DataError(f"{path}: clips is a {type(clips).__name__}; it takes a list")
    stored = []
    for number, clip in enumerate(clips):
        try:
            stored.append(_read_stored(path, clip, index))
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            reason = f"it has no {error}" if isinstance(error, KeyError) else str(error)
            raise DataError(f"{path}: clip {number} is damaged ({reason}); pack again") from error
    return clips, stored, raw


def _read_stored(path: Path, clip: Any, index: dict[str, Any]) -> StoredClip | None:
    example = Example.from_dict(clip, media=path)
    for name in ("id", "split", "video", "group"):
        _need(isinstance(clip[name], str), name, clip[name])
    labels, start, end, frame = example.labels, example.start, example.end, example.start_frame
    _need(isinstance(labels, dict) and all(type(n) is int for n in labels.values()), "labels", labels)
    _need(_is_number(start) and abs(start) <= MAX_TIME, "start", start)
    _need(end is None or (_is_number(end) and start <= end <= MAX_TIME), "end", end)
    _need(frame is None or (type(frame) is int and abs(frame) <= 1000 * MAX_TIME), "start_frame", frame)
    if "why" in clip:
        _need(isinstance(clip["why"], str), "why", clip["why"])
        return None
    offsets, times, checksums = clip["offsets"], clip["times"], clip.get("crc32")
    _need(isinstance(times, list) and len(times) > 0, "times", times)
    _need(all(t is None or (_is_number(t) and abs(t) <= MAX_TIME) for t in times), "times", times)
    seen = [t for t in times if t is not None]
    _need(seen == sorted(seen), "times", times)
    _need(isinstance(offsets, list) and all(type(n) is int and n >= 0 for n in offsets), "offsets", offsets)
    _need(len(offsets) == len(times) + 1 and offsets == sorted(offsets), "offsets", offsets)
    if index.get("task") != "anticipation":  # a clip that claims to be longer than its frames would take all memory
        length = max(times[-1] or 0.0, end or 0.0) - min(times[0] or 0.0, start)
        _need(None not in times and length <= 2 * len(times) / index["fps"] + MAX_STILL, "its length", length)
    elif index.get("clip") is not None:
        _need(len(times) == index["clip"].get("steps", ClipConfig().steps), "the number of times", len(times))
    if checksums is not None:
        _need(isinstance(checksums, list) and all(type(n) is int for n in checksums), "crc32", checksums)
        _need(len(checksums) == len(times), "crc32", checksums)
    sizes = clip.get("sizes")
    if sizes is not None:
        _need(isinstance(sizes, list) and len(sizes) == len(times), "sizes", sizes)
        fits = all(type(n) is int and 0 <= n <= end - at for n, (at, end) in zip(sizes, pairwise(offsets), strict=True))
        _need(fits, "sizes", sizes)
    seconds = np.asarray([math.nan if t is None else t for t in times], np.float64)
    return StoredClip(path.with_suffix(f".{_suffix(index)}").name, offsets, seconds, checksums, sizes)


def _need(fits: bool, name: str, value: Any) -> None:
    if not fits:
        raise ValueError(f"{name} is {value!r:.60}")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
