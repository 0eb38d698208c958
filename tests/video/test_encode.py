"""Writing video files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import videos

from horst.errors import InputError
from horst.video.encode import write_video
from horst.video.frame import Image


def test_a_failure_leaves_nothing(tmp_path: Path) -> None:
    def breaks() -> Iterator[Image]:
        yield videos.picture(0)
        raise RuntimeError("lens cap")

    with pytest.raises(RuntimeError, match="lens cap"):
        write_video(tmp_path / "clip.webm", breaks(), 12)
    assert list(tmp_path.iterdir()) == []


def test_invalid_output(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"\.webm or \.mp4"):
        write_video(tmp_path / "clip.gif", [videos.picture(0)], 12)
    with pytest.raises(InputError, match="at least one frame"):
        write_video(tmp_path / "clip.webm", [], 12)
    with pytest.raises(InputError, match="even sizes, not 35x51"):
        write_video(tmp_path / "clip.mp4", [videos.picture(0, 35, 51)], 12)
    assert list(tmp_path.iterdir()) == []
