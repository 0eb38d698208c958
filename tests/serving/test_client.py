"""The client, and the command that serves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest
import videos
from servers import SIZE, Running, http, running

from horst.cli import main
from horst.errors import BusyError, ConfigError, InputError
from horst.models import save
from horst.serving import Client, Limits
from horst.serving.client import ServerError
from horst.video.decode import VideoFile


def test_watching_a_file_says_what_the_model_says(server: Running, tmp_path: Path) -> None:
    path = videos.clip(tmp_path / "clip.mp4", frames=33, fps=10)
    with VideoFile(path, size=SIZE) as video:
        wanted = [p.to_dict(3) for p in server.model.stream().watch(video.frames(), video.info.duration)]
    with Client(server.url, picture="png", top=3, restarts="never") as client:
        said = list(client.watch(path))
    assert [{**one, "latency": 0} for one in said] == [{**one, "latency": 0} for one in wanted]


def test_pushing_frames(server: Running) -> None:
    with Client(server.url, restarts="never") as client:
        assert client.ready["model"] == "tiny"
        answers = [client.push(videos.picture(i, *SIZE), i / 5) for i in range(3)]
        assert [answer["prediction"]["age"] for answer in answers] == [1, 2, 3]
        client.send(videos.picture(3, *SIZE), 0.6)
        client.reset()
        assert client.push(videos.picture(0, *SIZE), 9.0)["prediction"]["age"] == 1
        with pytest.raises(InputError, match="no frame waits"):
            client.receive()
        with pytest.raises(InputError, match="uint8"):
            client.push(videos.picture(0, *SIZE).astype(float), 9.0)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="closed"):
        client.push(videos.picture(0, *SIZE), 9.0)


def test_errors_have_types(server: Running, tmp_path: Path) -> None:
    with pytest.raises(ServerError, match="no model 'other'"):
        Client(server.url, model="other").connect()
    with pytest.raises(ServerError, match="does not let us in"):
        Client("http://127.0.0.1:9").connect()
    with pytest.raises(ConfigError, match="looks like"):
        Client("somewhere")
    with running(tmp_path, Limits(load=1000, streams=1), token="long-enough") as full:
        with pytest.raises(ServerError, match="401"):
            Client(full.url).connect()
        with Client(f"{full.url}/#token=long-enough"), pytest.raises(BusyError):
            Client(full.url, token="long-enough").connect()


def test_the_command_serves_and_stops(server: Running, tmp_path: Path) -> None:
    save(server.model, tmp_path / "saved")
    command = [sys.executable, "-m", "horst", "serve", str(tmp_path / "saved"), "--port=0", f"--folder={tmp_path}/live"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1"}
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    assert child.stdout is not None
    line = child.stdout.readline()
    url = next(word for word in line.split() if word.startswith("http")).rstrip("/")
    end = time.monotonic() + 20
    while True:
        try:
            assert http.get(f"{url}/healthz").status_code == 200
            break
        except httpx.ConnectError:
            assert time.monotonic() < end
    with Client(url) as client:
        assert client.ready["model"] == "saved"
        client.push(videos.picture(0, *SIZE), 0.0)
        child.send_signal(signal.SIGINT)
        assert child.wait(timeout=20) == 0
    assert child.stderr is not None
    assert "Traceback" not in child.stderr.read()


def test_refusals_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "somethings", "--host", "0.0.0.0", "--port", "0"]) == 2
    assert "--token" in capsys.readouterr().err
    assert main(["serve", "--port", "99999999"]) == 2
    assert "port" in capsys.readouterr().err
    assert main(["serve", "nothing-there", "--port", "0"]) == 2
