"""A video with the predictions drawn in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import videos
from servers import Running, http, running

from horst.serving import Limits, uploads
from horst.video.decode import VideoFile

LIMITS = Limits(load=1000, video_seconds=4, upload_bytes=200_000)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("served") / "folder", LIMITS) as server:
        yield server


def test_rendered_video(server: Running, tmp_path: Path) -> None:
    path = videos.clip(tmp_path / "clip.mp4", frames=20, fps=10)
    answer = http.post(f"{server.url}/api/render?model=tiny", content=path.read_bytes(), timeout=60)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "video/mp4"
    (tmp_path / "rendered.mp4").write_bytes(answer.content)
    with VideoFile(tmp_path / "rendered.mp4") as video:
        assert (video.info.height, video.info.width, video.info.fps) == (720, 1280, 10)
        frames = [frame.image for frame in video.frames()]
    assert len(frames) == 20
    assert frames[-1][24:434, 780:].std() > 5  # names and bars
    assert not list((server.folder / "uploads").iterdir())


def test_limits(server: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"{server.url}/api/render"
    assert http.post(url, content=b"garbage").status_code == 422
    assert http.post(f"{url}?model=none", content=b"garbage").json()["error"]["code"] == "config"
    assert http.post(url, content=bytes(300_000)).status_code == 413
    long = videos.clip(tmp_path / "long.mp4", frames=50, fps=10).read_bytes()
    assert "5 s; the limit is 4 s" in http.post(url, content=long).json()["error"]["message"]
    with monkeypatch.context() as patched:
        patched.setattr("horst.video.container.Container._duration", lambda *_: None)
        assert http.post(url, content=long).status_code == 413
    clip = videos.clip(tmp_path / "clip.mp4", frames=10, fps=10).read_bytes()
    monkeypatch.setattr(uploads, "MAX_SECONDS", 0.0)
    assert http.post(url, content=clip).json()["error"]["code"] == "busy"
    assert not list((server.folder / "uploads").iterdir())
