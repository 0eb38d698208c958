"""The index of a packed data set: which clips are in which shard, and checks of all that it says when it is opened."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from horst.data.clips import ClipConfig
from horst.data.example import Example
from horst.data.folds import DEALT, Tie, ties, together
from horst.errors import ConfigError, DataError
from horst.io import INDEX, read_checked

CLIPS_A_SHARD = 64
STEPS = ClipConfig().steps
SPARE = 60.0
"""Seconds by which a clip may be longer than its frames: a picture may stand still."""
LONGEST = 1e6
"""Seconds, which is eleven days: no clip is that long, and one that says so would take all memory."""


class Stored(NamedTuple):
    """Where the frames of a clip are."""

    offsets: list[int]
    """In the shard; frame i ends where frame i + 1 begins."""
    times: NDArray[np.float64]
    """Seconds in the media; NaN where unobserved."""
    sums: list[int] | None
    """CRC-32 of each frame; None in sets of earlier versions."""


def read_index(path: Path, format: int) -> tuple[dict[str, Any], bytes]:
    """The index, and the bytes of its file."""
    index, raw = read_checked(path)
    if index.get("format") != format:
        raise DataError(f"{path} is not of format {format}: it is no packed data set of this version")
    fps: Any = index.get("fps")
    shards, clip = index.get("shards"), index.get("clip")
    if not _is_number(fps) or not 0 < fps <= LONGEST:
        raise DataError(f"{path}: fps is {fps!r}; it takes a number above 0")
    if type(shards) is not int or shards < 0:
        raise DataError(f"{path}: shards is {shards!r}; it takes a whole number from 0 on")
    if not isinstance(index.get("native", False), bool):
        raise DataError(f"{path}: native is {index['native']!r}; it takes true or false")
    if clip is not None:
        try:
            ClipConfig(**clip)
        except (ConfigError, TypeError) as error:
            raise DataError(f"{path}: clip is {clip!r:.200}: {error}") from error
    return index, raw


def read_clips(path: Path, index: dict[str, Any]) -> tuple[list[dict[str, Any]], list[Stored | None], bytes, bool]:
    """Of a shard: what is told of each clip, where it is (None: it is bad), the bytes, and whether all have sums."""
    shard, raw = read_checked(path)
    told = shard.get("clips")
    if not isinstance(told, list):
        raise DataError(f"{path}: clips is a {type(told).__name__}; it takes a list")
    stored = [_stored(path, number, clip, index) for number, clip in enumerate(told)]
    return told, stored, raw, all(one is None or one.sums is not None for one in stored)


def _stored(path: Path, number: int, clip: Any, index: dict[str, Any]) -> Stored | None:
    try:
        example = Example.from_dict(clip, media=path)
        _check(example)
        if "why" in clip:
            _need(isinstance(clip["why"], str), "why", clip["why"])
            return None
        offsets, times, sums = clip["offsets"], clip["times"], clip.get("crc32")
        _need(isinstance(times, list) and len(times) > 0, "times", times)
        _need(all(t is None or (_is_number(t) and -LONGEST <= t <= LONGEST) for t in times), "times", times)
        seen = [t for t in times if t is not None]
        _need(seen == sorted(seen), "times", times)
        _need(isinstance(offsets, list) and all(type(n) is int and n >= 0 for n in offsets), "offsets", offsets)
        _need(len(offsets) == len(times) + 1 and offsets == sorted(offsets), "offsets", offsets)
        if index.get("task") == "recognition":  # one that claims to be longer than its frames would take all memory
            length = max(times[-1] or 0.0, example.end or 0.0) - min(times[0] or 0.0, example.start)
            _need(None not in times and length <= 2 * len(times) / index["fps"] + SPARE, "its length", length)
        elif index.get("clip") is not None:
            _need(len(times) == index["clip"].get("steps", STEPS), "the number of times", len(times))
        if sums is not None:
            _need(isinstance(sums, list) and all(type(n) is int for n in sums), "crc32", sums)
            _need(len(sums) == len(times), "crc32", sums)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        what = f"it has no {error}" if isinstance(error, KeyError) else str(error)
        raise DataError(f"{path}: clip {number} is damaged ({what}); pack again") from error
    return Stored(offsets, np.asarray([math.nan if t is None else t for t in times], np.float64), sums)


def _check(example: Example) -> None:
    for name in ("id", "split", "video", "group"):
        _need(isinstance(getattr(example, name), str), name, getattr(example, name))
    labels = example.labels
    _need(isinstance(labels, dict) and all(type(n) is int for n in labels.values()), "labels", labels)
    for name, least in (("start", -LONGEST), ("end", example.start)):
        value = getattr(example, name)
        _need((name == "end" and value is None) or (_is_number(value) and least <= value <= LONGEST), name, value)
    frame = example.start_frame
    _need(frame is None or (type(frame) is int and abs(frame) <= 1000 * LONGEST), "start_frame", frame)


def _need(fits: bool, name: str, value: Any) -> None:
    if not fits:
        raise ValueError(f"{name} is {value!r:.60}")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _grouped(examples: Sequence[Example]) -> list[Example]:
    """Examples that a file ties together as one group: packed, they no longer tell their file.

    It has the file's name where nobody names a group, and the first one's where several are in one file. What is for
    testing ties nothing, as in `horst.data.folds`, and is named like the others.
    """
    clips = Counter(example.media for example in examples if not example.video)
    shared = {media for media, count in clips.items() if count > 1 and not (media / INDEX).is_file()}  # packed before
    if not shared:
        return list(examples)
    base = os.path.commonpath({os.path.abspath(e.media.parent) for e in examples})  # names are as on other machines
    names: dict[Tie, str] = {}
    for one in together([example for example in examples if example.split in DEALT]):
        named = {e.group for e in one if e.group}
        files = {e.media for e in one if not e.group and not e.video and e.media in shared}
        if files or len(named) > 1:
            name = min(named or {Path(os.path.relpath(file, base)).as_posix() for file in files})
            names |= {ties(e)[0]: name for e in one}
    return [replace(e, group=names.get(ties(e)[0], e.group)) for e in examples]


def _told_apart(examples: Sequence[Example]) -> tuple[Example, ...]:
    """Examples whose ids are not their own, each as of a video of its own: all clips are in one place."""
    times = Counter(example.id for example in examples)
    return tuple(replace(e, video=e.video or f"{e.split}/{e.id}") if times[e.id] > 1 else e for e in examples)


def _shards(examples: Sequence[Example]) -> list[list[Example]]:
    """Examples in groups of CLIPS_A_SHARD or somewhat more; those of one video stay together, as it is read once."""
    shards: list[list[Example]] = []
    for example in examples:
        if not shards or (len(shards[-1]) >= CLIPS_A_SHARD and shards[-1][-1].media != example.media):
            shards.append([])
        shards[-1].append(example)
    return shards
