"""A server that cannot write to its disk: clients learn why, and no paths."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from servers import Running, http, recording, running, wait_for

from horst.finetune.recordings import label_folder
from horst.io import PARTIAL, _host
from horst.serving.synthetic import CLIPS

FULL = Path("/dev/full")
pytestmark = pytest.mark.skipif(not FULL.exists(), reason="the system has no device that is always full")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Running]:
    with running(tmp_path / "secret place") as server:
        yield server


def check(answer: httpx.Response, server: Running) -> None:
    assert (answer.status_code, answer.json()["error"]["code"]) == (507, "disk"), answer.text
    assert "disk" in answer.json()["error"]["message"]
    assert "secret" not in answer.text


@pytest.mark.parametrize("path", ["predict", "render", "recordings/wave", "recordings/wave/video"])
def test_uploads(server: Running, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(tempfile.TemporaryDirectory[str]):
        def __enter__(self) -> str:
            folder = super().__enter__()
            Path(folder, "body").symlink_to(FULL)
            return folder

    with monkeypatch.context() as patch:
        patch.setattr(tempfile, "TemporaryDirectory", Full)
        check(http.post(f"{server.url}/api/{path}", content=bytes(100_000)), server)
    assert not list((server.folder / "uploads").iterdir())
    assert http.post(f"{server.url}/api/{path}", content=b"x").status_code == 422


@pytest.mark.parametrize("kind", ["mp4", "jpg"])
def test_samples(server: Running, kind: str) -> None:
    name, partial = "sample-1", f".{CLIPS[0][0]}.mp4.{_host()}.{os.getpid()}{PARTIAL}"
    (server.folder / "samples").mkdir(parents=True)
    (server.folder / "samples" / partial).symlink_to(FULL)
    check(http.get(f"{server.url}/api/samples/{name}.{kind}", timeout=60), server)
    assert not list((server.folder / "samples").iterdir())


def test_recordings(server: Running) -> None:
    (server.folder / "recordings").mkdir(parents=True)
    (server.folder / "recordings" / label_folder("wave")).write_text("a file in the place of the folder")
    check(http.post(f"{server.url}/api/recordings/wave", content=recording()), server)


def test_teach(tmp_path: Path) -> None:
    with running(tmp_path / "secret place", base=str(tmp_path / "secret place" / "no model")) as server:
        for label in ("wave", "rest"):
            for _ in range(2):
                assert http.post(f"{server.url}/api/recordings/{label}", content=recording()).status_code == 201
        assert http.post(f"{server.url}/api/teach", json={"name": "mine"}).status_code == 202
        address = f"{server.url}/api/teach"
        wait_for(lambda: http.get(address).json()["state"] == "failed", timeout=120)
        for answer in (http.get(address), http.delete(address)):
            assert "no model" in answer.json()["message"]
            assert "secret" not in answer.json()["message"]
