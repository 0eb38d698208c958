"""The example `examples/scale-out`: two servers behind HAProxy, and its files for systemd, Kubernetes and Grafana."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import videos
import yaml
from servers import FPS, Running, http, metrics, tiny, wait_for

from horst.errors import BusyError
from horst.models import save
from horst.serving.client import Client, ConnectionLostError

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples/scale-out"
STREAMS = 2  # of each server


@contextmanager
def process(*command: str, **env: str) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(command, env={**os.environ, **env}, stderr=subprocess.PIPE) as started:
        try:
            yield started
        finally:
            started.kill()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def answers(url: str) -> bool:
    try:
        return http.get(url).status_code == 200
    except httpx.TransportError:
        return False


class Replica:
    """`horst serve` in a process of its own."""

    def __init__(self, stack: ExitStack, model: Path, folder: Path, *options: str) -> None:
        self.url = f"http://127.0.0.1:{free_port()}"
        serve = ["-m", "horst", "serve", str(model), "--port", self.url.rsplit(":", 1)[1], "--folder", str(folder)]
        self.process = stack.enter_context(process(sys.executable, *serve, "--streams", str(STREAMS), *options))

    def wait(self) -> None:
        wait_for(lambda: self.process.poll() is None and answers(f"{self.url}/healthz/ready"), timeout=90)

    def streams(self) -> int:
        found = re.search(r"^horst_streams (\d+)", http.get(f"{self.url}/metrics").text, re.M)
        assert found
        return int(found[1])


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(tiny(), tmp_path_factory.mktemp("model") / "tiny")


def push(client: Client, number: int) -> None:
    answer = client.push(videos.picture(number, 24, 32), number / FPS)
    assert answer["status"] == "predicted", answer


def push_on(client: Client) -> None:
    for number in range(2, 400):
        push(client, number)
        time.sleep(0.02)


@pytest.mark.skipif(not shutil.which("haproxy"), reason="HAProxy is not installed")
def test_sessions_move_to_the_other_server(model: Path, tmp_path: Path) -> None:
    with ExitStack() as stack:
        one, two = (Replica(stack, model, tmp_path / name) for name in "12")
        port = free_port()
        ports = {"HORST_BIND": f"127.0.0.1:{port}", "HORST_ONE": one.url[7:], "HORST_TWO": two.url[7:]}
        for replica in (one, two):
            replica.wait()
        stack.enter_context(process("haproxy", "-f", str(EXAMPLE / "haproxy.cfg"), **ports))
        url = f"http://127.0.0.1:{port}"
        wait_for(lambda: answers(f"{url}/healthz/ready"))

        clients = [stack.enter_context(Client(url, reconnect=30)) for _ in range(2 * STREAMS)]
        assert (one.streams(), two.streams()) == (STREAMS, STREAMS)
        with pytest.raises(BusyError, match="server full"):
            Client(url).connect()
        assert answers(f"{url}/api/info")  # a full server answers other requests

        for client in clients:
            push(client, 0)
        for client in clients[:STREAMS]:
            client.close()
        one.process.kill()
        for client in clients[STREAMS:]:
            push(client, 1)
            push(client, 2)
        assert two.streams() == STREAMS


def test_sigterm_drains(model: Path, tmp_path: Path) -> None:
    with ExitStack() as stack:
        replica = Replica(stack, model, tmp_path / "served", "--drain", "3")
        replica.wait()
        client = stack.enter_context(Client(replica.url))
        push(client, 0)
        replica.process.send_signal(signal.SIGTERM)
        began = time.monotonic()
        wait_for(lambda: not answers(f"{replica.url}/healthz/ready"))
        assert http.get(f"{replica.url}/healthz").json()["status"] == "draining"
        with pytest.raises(BusyError, match="stopping"):
            Client(replica.url).connect()
        push(client, 1)  # the open session goes on
        with pytest.raises(ConnectionLostError, match="1012"):
            push_on(client)
        assert replica.process.wait(timeout=10) == -signal.SIGTERM
        assert 3 <= time.monotonic() - began < 10


def test_a_server_without_sessions_stops_at_once(model: Path, tmp_path: Path) -> None:
    with ExitStack() as stack:
        replica = Replica(stack, model, tmp_path / "served", "--drain", "60")
        replica.wait()
        replica.process.send_signal(signal.SIGTERM)
        assert replica.process.wait(timeout=10) == -signal.SIGTERM


def manifests() -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((EXAMPLE / "kubernetes.yaml").read_text()))


@pytest.mark.parametrize("manifest", manifests(), ids=lambda manifest: manifest["kind"])
def test_kubernetes_accepts_the_manifest(manifest: dict[str, Any]) -> None:
    validate = pytest.importorskip("kubernetes_validate")
    validate.validate(manifest, validate.latest_version(), strict=True)


def test_probes_are_routes_and_options_exist(server: Running) -> None:
    container = manifests()[0]["spec"]["template"]["spec"]["containers"][0]
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert answers(server.url + container[probe]["httpGet"]["path"])
    known = subprocess.run([sys.executable, "-m", "horst", "serve", "--help"], capture_output=True, text=True).stdout
    image, unit = (file.read_text() for file in (ROOT / "Containerfile", EXAMPLE / "horst@.service"))
    for option in re.findall(r"--(?:host|port|folder|threads|drain)\b", f"{container['args']} {image} {unit}"):
        assert option in known


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not installed")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    unit = (EXAMPLE / "horst@.service").read_text()
    program = re.search(r"^ExecStart=(\S+)", unit, re.M)
    assert program
    (tmp_path / "horst@8001.service").write_text(unit.replace(program[1], sys.executable))
    found = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", tmp_path / "horst@8001.service"], capture_output=True, text=True
    )
    assert "horst@8001" not in found.stderr, found.stderr
    assert found.returncode == 0, found.stderr


def test_the_dashboard_uses_metrics_that_exist(server: Running) -> None:
    board = json.loads((EXAMPLE / "grafana.json").read_text())
    queries = " ".join(target["expr"] for panel in board["panels"] for target in panel["targets"])
    used = set(re.findall(r"\bhorst_\w+", queries))
    there = set(re.findall(r"^(horst_\w+)", metrics(server), re.M))
    assert used == there
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
