"""Over 300 damaged files: no crash, no hang, no silent loss. Each gives a typed error, or frames and a report."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import pytest
import videos

from horst.errors import VideoError
from horst.video.decode import VideoFile

FILES = 160  # of each container


def mutate(data: bytes, chance: random.Random) -> bytes:
    """A kind of damage: flipped bits, zeros or noise, truncation, a part lost or repeated."""
    broken = bytearray(data)
    kind = chance.choice(["bits", "zeros", "noise", "cut", "lost", "doubled", "header"])
    at = chance.randrange(len(broken))
    length = chance.choice([1, 4, 16, 64, 256, 1024])
    if kind == "bits":
        for _ in range(chance.choice([1, 3, 10, 100])):
            broken[chance.randrange(len(broken))] ^= 1 << chance.randrange(8)
    elif kind == "zeros":
        broken[at : at + length] = bytes(len(broken[at : at + length]))
    elif kind == "noise":
        broken[at : at + length] = chance.randbytes(len(broken[at : at + length]))
    elif kind == "cut":
        del broken[at:]
    elif kind == "lost":
        del broken[at : at + length]
    elif kind == "doubled":
        broken[at:at] = broken[at : at + length]
    else:
        for _ in range(chance.choice([1, 2, 8])):
            broken[chance.randrange(min(600, len(broken)))] = chance.randrange(256)
    return bytes(broken)


@pytest.mark.parametrize("suffix", [".webm", ".mp4"])
def test_damaged_files(tmp_path: Path, suffix: str) -> None:
    original = videos.clip(tmp_path / f"clip{suffix}", frames=24).read_bytes()
    chance = random.Random(0)
    path = tmp_path / f"damaged{suffix}"
    outcomes = {"refused": 0, "whole": 0, "recovered": 0}
    for _ in range(FILES):
        path.write_bytes(mutate(original, chance))
        try:
            with VideoFile(path, size=(24, 32), threads=1) as video:
                frames = list(video.frames())
                report = video.report
                (shown,) = video.at([1.0])
        except VideoError:
            outcomes["refused"] += 1
            continue
        assert frames
        assert report.decoded == len(frames)
        assert shown.time <= max(1.0, frames[0].time) + 1e-3  # a seek in a damaged file shows nothing later either
        assert all(a.time < b.time for a, b in itertools.pairwise(frames))
        if len(frames) < 24 and report.promised is not None and report.promised >= 2.0 - 1e-3:
            assert not report.complete, f"{len(frames)} of 24 frames, and the report says {report}"
        outcomes["whole" if report.complete else "recovered"] += 1
    assert all(outcomes.values()), outcomes
