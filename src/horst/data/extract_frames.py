"""Which frames `horst extract` needs of a video, and reading them: in order, each once, with those that are lost told.

A stream gives frames with their numbers in the store. It never fails for what is in a file: what cannot be read is
told of the examples that need it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from horst.data.clips import EPIC_FPS, ClipConfig, check_end, seen_frames, shown_time
from horst.data.example import Example
from horst.data.features import MICRO, Told
from horst.data.readers.pictures import is_pictures, open_pictures
from horst.errors import DamagedVideoError, InputError, VideoError
from horst.video.frame import Frame, Image
from horst.video.sampling import SLACK

GAP = 10.0  # seconds without a needed frame that are jumped over, not decoded

Numbered = Iterator[tuple[int, Image]]
"""Frames with their numbers in the store."""
Shown = Iterator[tuple[int, float, Image]]
"""Frames with their numbers in the store and the seconds at which they are really shown."""
Read = Callable[[Example, ClipConfig], Any]
"""Gives a Clip: sources of features, which give none, are refused."""
Wanted = list[tuple[Example, list[int]]]


def clip_frames(read: Read, config: ClipConfig, examples: Iterable[Example], told: Told) -> Numbered:
    """Recognition: the frames of every clip, each once, however many clips show it."""
    seen: set[int] = set()
    failed: dict[tuple[float, float | None], str] = {}
    for example in examples:
        place = (example.start, example.end)
        if place not in failed:
            failed[place] = ""
            try:
                clip = read(example, config)
            except (VideoError, InputError) as error:
                failed[place] = str(error)
            else:
                numbers = [round(t * MICRO) for t in clip.times.tolist()]
                told.clips.append((*place, numbers, clip.note))
                new = {n: image for n, image in zip(numbers, clip.frames, strict=True) if n not in seen}
                seen.update(new)
                yield from new.items()
        if failed[place]:
            told.lose(example, failed[place])


def moments(read: Read | None, config: ClipConfig, examples: Sequence[Example], told: Told) -> Numbered:
    """Anticipation: the frames before every action, in order, each once; `read` them where they are packed."""
    wanted: Wanted = []
    for example in examples:
        with suppress(InputError):  # an action too early to be seen before: readers say so without the store
            wanted.append((example, seen_frames(example, config).tolist()))
    numbers = sorted({n for _, of in wanted for n in of})
    found: set[int] = set()
    why: dict[int, str] = {}
    if read is not None:
        stream = _from_packed(read, config, wanted, why)
    elif is_pictures(examples[0].media):
        stream = _from_pictures(examples[0], numbers, config.size, why)
    else:
        stream = _from_video(examples[0].media, numbers, config.size, why)
    for number, time, image in stream:
        if number not in found:
            found.add(number)
            told.times[number] = time
            yield number, image
    for example, of in wanted:
        lost = [n for n in of if n not in found]
        if lost:
            told.lose(example, why.get(lost[0], f"frame {lost[0]} is not in the packed data set"))


def _from_packed(read: Read, config: ClipConfig, wanted: Wanted, why: dict[int, str]) -> Shown:
    for example, numbers in wanted:
        try:
            clip = read(example, config)
        except VideoError as error:
            why.update(dict.fromkeys(numbers, str(error)))
        else:
            for i in np.flatnonzero(clip.observed):
                number, time = numbers[i], float(clip.times[i])
                if abs((number - 1) / EPIC_FPS - time) < config.stride / 2:  # else it was packed at other positions
                    yield number, time, clip.frames[i]


def _from_pictures(example: Example, numbers: Sequence[int], size: tuple[int, int], why: dict[int, str]) -> Shown:
    try:
        pictures = open_pictures(example, size)
    except VideoError as error:
        why.update(dict.fromkeys(numbers, str(error)))
        return
    for number in numbers:
        place = pictures.number_at((number - 1) / EPIC_FPS)
        try:
            image = pictures.read(place)
        except VideoError as error:
            why[number] = str(error)
        else:
            yield number, pictures.time_of(place), image


def _from_video(media: Path, numbers: Sequence[int], size: tuple[int, int], why: dict[int, str]) -> Shown:
    """As `VideoFile.at`, but frame by frame: those of a long video do not fit into memory."""
    from horst.video.decode import VideoFile  # packed data and pictures are read where FFmpeg is not

    left = list(numbers)

    def taken(frame: Frame) -> Shown:
        number = left.pop(0)
        try:
            time = shown_time(media, frame.time, (number - 1) / EPIC_FPS)
        except VideoError as error:
            why[number] = str(error)
        else:
            yield number, time, frame.image

    try:
        with VideoFile(media, size=size) as video:
            while left:
                begin, shown = (left[0] - 1) / EPIC_FPS, None
                for frame in video.frames(begin):
                    while shown is not None and left and frame.time > (left[0] - 1) / EPIC_FPS + SLACK:
                        yield from taken(shown)
                    if not left or (shown is not None and (left[0] - 1) / EPIC_FPS > frame.time + GAP):
                        break
                    shown = frame
                else:
                    if shown is None:
                        raise DamagedVideoError(media, f"no frame decodes at {begin:g} s")
                    while left:  # the last frame stays, but not for long
                        beat = 1 / (video.info.fps or EPIC_FPS)
                        check_end(media, shown.time, (left[0] - 1) / EPIC_FPS, beat)
                        yield from taken(shown)
    except VideoError as error:
        why.update(dict.fromkeys(left, str(error)))
