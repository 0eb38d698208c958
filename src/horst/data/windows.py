"""The frames for `horst extract` with a backbone that reads a window of the last frames.

Recognition and whole videos: a window begins with its clip, as when the model sees that clip. Anticipation: the window
of a frame reaches back before the positions of an action, at the distance of these, up to the start of the video, as
that of a live stream does. It is the same for all actions that observe the frame.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from horst.data.clips import EPIC_FPS, Clip, ClipConfig, read_frames, seen_frames
from horst.data.example import Example
from horst.data.features import MICROSECONDS, ExtractedVideo
from horst.errors import InputError, VideoError
from horst.video.frame import Image
from horst.video.sampling import anticipation_frames

Read = Callable[[Example, ClipConfig], Clip]
FrameRun = tuple[list[int], Any]  # numbers in the store, and the frames of one clip (T, H, W, 3), in order
Window = tuple[int, list[Image]]  # the number of its last frame in the store, and all its frames


def readable_clips(
    read: Read, config: ClipConfig, examples: Iterable[Example], video: ExtractedVideo
) -> Iterator[tuple[tuple[float, float | None], Clip]]:
    """The clips of a video with their start and end, each once. Clips that cannot be read are added to `video`."""
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
                yield place, clip
        if failed[place]:
            video.add_bad(example, failed[place])


def recognition_runs(
    read: Read, config: ClipConfig, examples: Sequence[Example], video: ExtractedVideo
) -> Iterator[FrameRun]:
    """The frames of every clip of a video."""
    seen: set[int] = set()
    for place, clip in readable_clips(read, config, examples, video):
        numbers = list[int]()
        for time in clip.times.tolist():
            number = round(time * MICROSECONDS)
            while number in seen:  # a frame of two clips has two maps: the second a microsecond later
                number += 1
            seen.add(number)
            numbers.append(number)
        video.clips.append((*place, numbers, clip.note))
        yield numbers, clip.frames


def anticipation_windows(
    config: ClipConfig, length: int, examples: Sequence[Example], video: ExtractedVideo
) -> Iterator[Window]:
    """The windows of `length` frames of all positions before actions, in order, each once.

    Examples with frames that cannot be read, of windows too, are added to `video`.
    """
    wanted: list[tuple[Example, list[int]]] = []
    for example in examples:
        with suppress(InputError):  # nothing precedes the action: readers find that without the store
            wanted.append((example, seen_frames(example, config).tolist()))
    windows = {n: window_frames(n, length, config.stride) for n in sorted({n for _, of in wanted for n in of})}
    stream = read_frames(examples[0], sorted({n for of in windows.values() for n in of}), config.size)
    images: dict[int, Image] = {}
    failed: dict[int, VideoError] = {}
    for last, numbers in windows.items():
        images = {n: image for n, image in images.items() if n >= numbers[0]}
        while last not in images and last not in failed:
            number, time, image = next(stream)
            if isinstance(image, VideoError):
                failed[number] = image
            else:
                images[number], video.times[number] = image, time
        if lost := [n for n in numbers if n in failed]:
            failed[last] = failed[lost[0]]
        else:
            yield last, [images[n] for n in numbers]
    for example, of in wanted:
        if lost := [n for n in of if n in failed]:
            video.add_bad(example, str(failed[lost[0]]))


def window_frames(last: int, length: int, stride: float) -> list[int]:
    """The frames, numbered from 1 at EPIC_FPS, of a window that ends with `last`, `stride` seconds apart."""
    try:
        return [*anticipation_frames(last, EPIC_FPS, length - 1, stride, "rulstm").tolist(), last]
    except InputError:  # there is none before it
        return [last] * length
