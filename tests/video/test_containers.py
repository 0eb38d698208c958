"""Every way to read a file gives the frames of its sequential decode, over containers, codecs and key frames."""

from __future__ import annotations

from pathlib import Path

import av
import containers
import numpy as np
import pytest
from containers import FORMS, FPS, FRAMES, Form

from horst.errors import HorstError
from horst.video.decode import VideoFile
from horst.video.live import LiveSource

STARTS = [0.5, 0.9, 1.94]


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_reads_equal_the_sequential_decode(tmp_path: Path, form: Form) -> None:
    bad = [f"{what}: {why}" for what, path in containers.files(tmp_path, form) for why in tried(path)]
    assert not bad, "\n".join(bad)


def tried(path: Path) -> list[str]:
    try:
        return problems(path)
    except (HorstError, av.FFmpegError) as error:
        return [repr(error)]


def problems(path: Path) -> list[str]:
    truth = containers.sequential(path)
    found = []
    if [containers.decoded(image) for image in truth] != list(range(FRAMES)):
        return [f"FFmpeg shows {[containers.decoded(image) for image in truth]}"]

    def compare(read: str, frames: list, numbers: list[int]) -> None:
        shown = [containers.decoded(frame.image) for frame in frames]
        if shown != numbers:
            found.append(f"{read} shows {shown}, not {numbers}")
        elif any(not np.array_equal(frame.image, truth[n]) for frame, n in zip(frames, numbers, strict=True)):
            found.append(f"{read} shows other pixels")
        elif any(abs(frame.time - n / FPS) > 2e-3 for frame, n in zip(frames, numbers, strict=True)):
            found.append(f"{read} has times {[round(frame.time, 3) for frame in frames]} for {numbers}")

    with VideoFile(path, threads=1) as video:
        if video.info.duration is not None and abs(video.info.duration - FRAMES / FPS) > 0.5 / FPS:
            found.append(f"its duration is {video.info.duration}")
        compare("a first pass", list(video.frames()), list(range(FRAMES)))
        if not video.report.complete:
            found.append(f"the report says: {video.report}")
        compare("at", video.at([1.1, 0.0, 0.5, 5.0]), [27, 0, 12, FRAMES - 1])
        for start in STARTS:
            first = int(start * FPS + 1e-6)
            compare(f"at {start}", video.at([start]), [first])
            some = list(video.frames(start, (first + 5) / FPS))
            compare(f"from {start} s", some, list(range(first, min(first + 5, FRAMES))))
        compare("from 1.5 s to the end", list(video.frames(1.5)), list(range(37, FRAMES)))
        compare("a second pass", list(video.frames()), list(range(FRAMES)))
    live = list(LiveSource(source=str(path)).frames())
    if [containers.decoded(frame.image) for frame in live] != list(range(FRAMES)):
        found.append("a live source shows others")
    return found
