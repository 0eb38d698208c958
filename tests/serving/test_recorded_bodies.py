"""Clips to teach with: the body is read frame by frame, and kept in the folder for recordings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import videos
from servers import SIZE, frame, picture, recording

from horst.errors import InputError
from horst.serving import Limits
from horst.serving.errors import ApiError
from horst.serving.teach import School, _frames, _keep, _remove

LIMITS = Limits()


def test_frames_arrive_with_their_times() -> None:
    found = list(_frames(recording(5, fps=10.0, kind="png"), LIMITS))
    assert [time for time, _ in found] == pytest.approx([i / 10 for i in range(5)])
    for i, (_, image) in enumerate(found):
        assert np.array_equal(image, videos.picture(i, *SIZE))


def test_a_clip_may_have_as_many_frames_as_the_limit() -> None:
    body = recording(4)
    assert len(list(_frames(body, replace(LIMITS, recording_frames=4)))) == 4
    with pytest.raises(InputError, match="more than the 3 frames"):
        list(_frames(body, replace(LIMITS, recording_frames=3)))
    assert len(list(_frames(body, replace(LIMITS, frame_pixels=SIZE[0] * SIZE[1])))) == 4
    with pytest.raises(InputError, match="pixels are taken"):
        list(_frames(body, replace(LIMITS, frame_pixels=SIZE[0] * SIZE[1] - 1)))
    largest = max(len(picture(i, "jpeg")) for i in range(4))
    assert len(list(_frames(body, replace(LIMITS, frame_bytes=largest)))) == 4
    with pytest.raises(InputError, match="bytes; at most"):
        list(_frames(body, replace(LIMITS, frame_bytes=largest - 1)))


def test_every_cut_of_a_body_is_noticed() -> None:
    """Wherever it ends but between two frames; then what came is there."""
    one = frame(0, 0.0)
    body = 2 * (len(one).to_bytes(4, "little") + one)
    whole = len(body) // 2
    assert len(list(_frames(body[:whole], LIMITS))) == 1
    for end in (1, 2, 3, 4, 5, whole - 1, whole + 1, whole + 3, whole + 4, len(body) - 1):
        which = "the body ends in the length" if end % whole < 4 else f"shall have {len(one)} bytes; the body has"
        with pytest.raises(InputError, match=f"{which}.*" + str(end // whole if end % whole < 4 else "")):
            list(_frames(body[:end], LIMITS))
    with pytest.raises(InputError, match="no frames"):
        list(_frames(b"", LIMITS))


def test_recordings_are_kept_where_the_server_says(tmp_path: Path) -> None:
    school = School(tmp_path / "clips", tmp_path / "models")
    kept = _keep(school, "wave", recording(6), LIMITS)
    assert [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not list((tmp_path / "models").rglob("*"))
    assert all((tmp_path / "clips") in path.parents for path in tmp_path.rglob("*") if path.is_file())
    assert [clip.id for clip in school.recordings.labels()["wave"]] == [kept["id"]]
    assert not school.teaching
    for label, ident in (("none", None), ("wave", "none"), ("none", kept["id"])):
        with pytest.raises(ApiError, match="there is no recording") as told:
            _remove(school, label, ident)
        assert (told.value.status, told.value.code) == (404, "missing")
    assert _remove(school, "wave", kept["id"]) == 1
    assert "wave" not in school.recordings.labels()
    school.close()
