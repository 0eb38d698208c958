"""Small files that claim much: neither tables nor frames take the memory of the machine."""

from __future__ import annotations

import io
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

from benchmarks.bombs import MANY, bombs, box, encoded, growing, replaced, with_samples, with_tracks
from horst.errors import NotAVideoError
from horst.video.container import most_pixels
from horst.video.decode import VideoFile
from horst.video.frame import MAX_PIXELS
from horst.video.tables import check_tables


@pytest.mark.skipif(sys.platform == "win32", reason="needs fork")
@pytest.mark.slow
def test_memory() -> None:
    """All bombs, each in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.fuzz_videos", "--files", "60"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "PROBLEM" not in done.stdout


def test_claims_that_do_not_fit(tmp_path: Path) -> None:
    made = bombs()
    names = [name for name in made if name.endswith(("mp4", "mov", "3gp")) and not name.startswith("many_tracks")]
    assert len(names) >= 10
    for name, data in made.items():
        path = tmp_path / name
        path.write_bytes(data)
        if name in names:
            with pytest.raises(NotAVideoError, match=f"{name}: its headers claim tables of .* which do not fit"):
                check_tables(path)
        else:
            check_tables(path)


def pcm(count: int) -> bytes:
    """A mov of sound, which has one entry for each chunk of samples."""
    file = io.BytesIO()
    with av.open(file, "w", format="mov") as container:
        stream = container.add_stream("pcm_s16le", rate=48_000, layout="mono")
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 4800), np.int16), format="s16", layout="mono")
        frame.sample_rate, frame.pts, frame.time_base = 48_000, 0, Fraction(1, 48_000)
        container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return with_samples(file.getvalue(), count)


def test_claims_that_fit(tmp_path: Path) -> None:
    """Long recordings, and the beginnings of them."""
    plain = encoded("mp4")
    fragmented = encoded("mp4", {"movflags": "frag_every_frame+empty_moov"}, frames=200)
    edits = box(b"elst", bytes(7) + b"\x05" + 5 * b"\0\0\x10\0\0\0\0\0\0\1\0\0")
    for name, data in {
        "whole.mp4": plain,
        "fragments.mp4": fragmented,
        "long.mp4": with_samples(plain, 1_500_000),
        "tracks.mp4": with_tracks(with_samples(plain, 100_000), 12),
        "edits.mp4": replaced(with_samples(plain, 100_000), b"elst", lambda _: edits),
        "sound.mov": pcm(MANY),
        "text.txt": b"text" * 9999,
        "short.mp4": plain[:5],
        "large.mp4": with_samples(plain, 3_000_000) + box(b"free", bytes(200 << 20)),
    }.items():
        path = tmp_path / name
        path.write_bytes(data)
        check_tables(path)
        if name not in ("text.txt", "short.mp4"):
            av.open(str(path)).close()


def test_sound_of_other_codecs_counts(tmp_path: Path) -> None:
    for change in ((b"soun", b"vide"), (b"sowt", b"mp4a")):
        path = tmp_path / "sound.mov"
        path.write_bytes(pcm(MANY).replace(*change))
        with pytest.raises(NotAVideoError, match="claim tables"):
            check_tables(path)


@pytest.mark.parametrize(("suffix", "codec"), [("ts", "libx264"), ("avi", "mjpeg")])
def test_frames_that_grow_are_corrupt(tmp_path: Path, suffix: str, codec: str) -> None:
    path = tmp_path / f"growing.{suffix}"
    path.write_bytes(growing(suffix, codec))
    with VideoFile(path, threads=1) as video:
        assert {frame.image.shape for frame in video.frames()} == {(48, 64, 3)}
        assert (video.report.decoded, video.report.corrupt) == (30, 3)


def test_largest_frame() -> None:
    assert most_pixels(64, 48) == 2048**2  # a stream may change to full HD
    assert 3840 * 2176 <= most_pixels(3840, 2160) < 1.1 * 3840 * 2160  # decoders round sizes up
    assert most_pixels(8192, 8192) == most_pixels(10**5, 10**5) == MAX_PIXELS
