"""Recorded clips over the network: stored, read again, and added as video files."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest
import videos
from PIL import Image as Pictures
from servers import Running, http, recording, running

from horst.finetune import RecordingLimits
from horst.serving import Limits
from horst.serving.frames import join_recording, split_recording
from horst.video.encode import write_video

LIMITS = Limits(load=1000, upload_bytes=400_000)
LONGEST = RecordingLimits().longest


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("served") / "folder", LIMITS) as server:
        yield server


def test_clip_is_read_as_it_was_stored(server: Running) -> None:
    url = f"{server.url}/api/recordings/wave"
    stored = http.post(url, content=recording(8)).json()
    answer = http.get(f"{url}/{stored['id']}")
    assert answer.headers["content-type"] == "application/octet-stream"
    frames = list(split_recording(answer.content, LIMITS))
    assert [time for time, _ in frames] == pytest.approx([i / 10 for i in range(8)])
    assert [videos.number_of(image) for _, image in frames] == list(range(8))
    again = http.post(url, content=answer.content).json()
    assert (again["frames"], again["seconds"]) == (stored["frames"], stored["seconds"])
    for path in ("wave/none", "none/none", f"none/{stored['id']}", "wave/..%2fx"):
        assert http.get(f"{server.url}/api/recordings/{path}").status_code == 404
    assert http.delete(url).json() == {"removed": 2}


def test_damaged_clip_is_reported(server: Running) -> None:
    url = f"{server.url}/api/recordings/wave"
    stored = http.post(url, content=recording(8)).json()
    (file,) = (server.folder / "recordings").rglob("*.safetensors")
    file.write_bytes(b"no clip")
    answer = http.get(f"{url}/{stored['id']}")
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "data")
    assert str(server.folder) not in answer.text
    assert http.delete(url).json() == {"removed": 1}


def test_frames_have_numbers_and_times() -> None:
    pictures = [b"one", b"two"]
    body = join_recording([0.0, 0.5], pictures)
    assert body[:4] == (12 + 3).to_bytes(4, "little")
    assert body[4 + 12 : 4 + 15] == b"one"
    assert join_recording([], []) == b""
    with pytest.raises(ValueError, match="longer"):
        join_recording([0.0], pictures)


@pytest.mark.parametrize(("size", "stored"), [((480, 640), (288, 384)), ((640, 360), (384, 216)), ((48, 64), (48, 64))])
def test_video_is_stored_as_a_clip(
    server: Running, tmp_path: Path, size: tuple[int, int], stored: tuple[int, int]
) -> None:
    path = videos.clip(tmp_path / "clip.mp4", frames=24, fps=12, height=size[0], width=size[1])
    url = f"{server.url}/api/recordings/point"
    answer = http.post(f"{url}/video", content=path.read_bytes())
    assert answer.status_code == 201, answer.text
    assert (answer.json()["label"], answer.json()["frames"]) == ("point", 24)
    assert answer.json()["seconds"] == pytest.approx(23 / 12, abs=0.01)
    body = http.get(f"{url}/{answer.json()['id']}").content
    with Pictures.open(io.BytesIO(body[16:])) as picture:
        assert (picture.height, picture.width) == stored
        assert picture.format == "JPEG"
    assert not list((server.folder / "uploads").iterdir())
    assert http.delete(url).json() == {"removed": 1}


@pytest.mark.parametrize("suffix", ["mp4", "webm"])
def test_long_video_is_not_cut(server: Running, tmp_path: Path, suffix: str) -> None:
    url = f"{server.url}/api/recordings/point/video"
    frames = [videos.picture(i) for i in range(60)]
    write_video(tmp_path / f"fits.{suffix}", frames[: round(5 * LONGEST)], 5)
    assert http.post(url, content=(tmp_path / f"fits.{suffix}").read_bytes()).status_code == 201
    write_video(tmp_path / f"long.{suffix}", frames, 5)
    answer = http.post(url, content=(tmp_path / f"long.{suffix}").read_bytes())
    assert answer.status_code == 422
    assert answer.json()["error"]["code"] == "long"
    assert "lasts 12.0 s; a clip may last 10 s" in answer.json()["error"]["message"]
    assert http.delete(f"{server.url}/api/recordings/point").json() == {"removed": 1}


def test_long_video_without_a_duration(server: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As browsers record webm."""
    monkeypatch.setattr("horst.video.container.Container._duration", lambda *_: None)
    path = videos.clip(tmp_path / "long.mp4", frames=60, fps=5)
    answer = http.post(f"{server.url}/api/recordings/point/video", content=path.read_bytes())
    assert answer.json()["error"]["code"] == "long"
    assert "lasts 11.8 s" in answer.json()["error"]["message"]  # its last frame is shown then
    assert http.get(f"{server.url}/api/recordings").json() == {"labels": []}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 422),
        (b"garbage", 422),
        (b"#EXTM3U\n", 422),
        (b"\0\0\0\x20ftypisom" + bytes(500), 422),
        (bytes(500_000), 413),
    ],
)
def test_invalid_video(server: Running, body: bytes, status: int) -> None:
    answer = http.post(f"{server.url}/api/recordings/point/video", content=body)
    assert answer.status_code == status, answer.text
    assert str(server.folder) not in answer.text
    assert http.get(f"{server.url}/api/recordings").json() == {"labels": []}


def test_full_label(server: Running, tmp_path: Path) -> None:
    path = videos.clip(tmp_path / "clip.mp4", frames=6, fps=10)
    url = f"{server.url}/api/recordings/point"
    for _ in range(RecordingLimits().clips):
        assert http.post(f"{url}/video", content=path.read_bytes()).status_code == 201
    answer = http.post(f"{url}/video", content=path.read_bytes())
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "full")
    assert http.delete(url).json() == {"removed": RecordingLimits().clips}
