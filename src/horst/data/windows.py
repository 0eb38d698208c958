"""The frames for `horst extract` with a backbone that reads a window of the last frames: runs in order of time.

Recognition and whole videos: a window begins with its clip, as when the model sees that clip. Anticipation: a window
reaches back before the positions of an action, at the same distances, up to the start of the video, as that of a live
stream does.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from horst.data.clips import Clip, ClipConfig, read_frames, seen_frames
from horst.data.example import Example
from horst.data.features import MICROSECONDS, ExtractedVideo
from horst.errors import InputError, VideoError
from horst.video.frame import Image
from horst.video.sampling import UNOBSERVED

Read = Callable[[Example, ClipConfig], Clip]


@dataclass(frozen=True, slots=True)
class FrameRun:
    """Frames of one video in order of time."""

    numbers: Sequence[int | None]  # in the store; None: not stored
    images: Sequence[Image]
    past: Sequence[Image] = ()  # the frames before, whose maps are not stored


def recognition_runs(
    read: Read, config: ClipConfig, examples: Sequence[Example], video: ExtractedVideo
) -> Iterator[FrameRun]:
    """Every clip of a video, each once. Clips that cannot be read are added to `video`."""
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
                numbers = list[int]()
                for time in clip.times.tolist():
                    number = round(time * MICROSECONDS)
                    while number in seen:  # a frame of two clips has two maps: the second a microsecond later
                        number += 1
                    seen.add(number)
                    numbers.append(number)
                video.clips.append((*place, numbers, clip.note))
                yield FrameRun(numbers, clip.frames)
        if failed[place]:
            video.add_bad(example, failed[place])


def anticipation_runs(
    config: ClipConfig, window: int, examples: Sequence[Example], video: ExtractedVideo
) -> Iterator[FrameRun]:
    """The frames before every action, each stored once, and those that the windows of the first ones reach back to.

    Examples with frames that cannot be read, of their windows too, are added to `video`.
    """
    before = replace(config, steps=config.steps + window - 1, mode="strict")
    wanted: list[tuple[Example, list[int], set[int]]] = []
    for example in examples:
        with suppress(InputError):  # nothing precedes the action: readers find that without the store
            numbers = [n for n in seen_frames(example, before).tolist() if n != UNOBSERVED]
            wanted.append((example, numbers, set(seen_frames(example, config).tolist())))
    wanted.sort(key=lambda entry: entry[1][-1])
    stream = read_frames(examples[0], sorted({n for _, of, _ in wanted for n in of}), config.size)
    needed = [*(min(of[0] for _, of, _ in wanted[i:]) for i in range(len(wanted))), math.inf]  # by the rest
    images: dict[int, Image] = {}
    failed: dict[int, VideoError] = {}
    stored: set[int] = set()
    for i, (example, numbers, own) in enumerate(wanted):
        while numbers[-1] not in images and numbers[-1] not in failed:
            number, time, image = next(stream)
            if isinstance(image, VideoError):
                failed[number] = image
            else:
                images[number], video.times[number] = image, time
        if lost := [n for n in numbers if n in failed]:
            video.add_bad(example, str(failed[lost[0]]))
        elif new := [n for n in numbers if n in own and n not in stored]:
            first = numbers.index(new[0])
            past, run = numbers[:first][1 - window :], numbers[first:]
            shown = [n if n in own and n not in stored else None for n in run]
            stored.update(new)
            yield FrameRun(shown, [images[n] for n in run], [images[n] for n in past])
        images = {n: image for n, image in images.items() if n >= needed[i + 1]}
