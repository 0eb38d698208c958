"""What other clients notice of an attack on the server: latency, memory, and how long SIGTERM takes meanwhile.

    python -m benchmarks.attacks [--seconds 20] [--only half_heads ...] [--model somethings]

For each attack (`benchmarks.attackers`) a server is started by `horst serve`, and one client streams frames at 10 per
second: first alone, then during the attack, which runs in another process. Another client asks for `/healthz` and sends
an upload, which is not a video, every `PROBE` seconds. At the end the server gets SIGTERM while the attack goes on.

Exit status 1: the client's p95 was 3 times as long as before and over 100 ms, frames were lost, `/healthz` took more
than `HEALTH` seconds or did not answer 200, memory grew by more than `MEMORY`, or the server took over 10 s to end.
"""

import argparse
import json
import math
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field

import httpx
import numpy as np
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from benchmarks.attackers import ATTACKS
from benchmarks.server_load import clip, resident, served
from horst.serving.frames import join_frame

FPS = 10.0
RATIO, FLOOR = 3.0, 0.1  # of the client's p95 to its quiet value; shorter ones than this pass, in seconds
MEMORY = 200  # MB that an attack may add
HEALTH, PROBE = 1.0, 0.5  # seconds
END = 10.0  # seconds


@dataclass(frozen=True, slots=True)
class Result:
    name: str
    quiet: float  # p95, seconds
    attacked: float
    unanswered: int
    before: float  # memory, MB
    most: float
    health: float  # seconds at most
    refused: str  # uploads, and how many were sent

    @property
    def problems(self) -> list[str]:
        found = {
            "latency": self.attacked > max(RATIO * self.quiet, FLOOR),
            "frames": self.unanswered > 0,
            "healthz": self.health > HEALTH,
            "memory": self.most - self.before > MEMORY,
        }
        return [name for name, bad in found.items() if bad]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20.0, help="of each phase")
    parser.add_argument("--only", nargs="+", choices=sorted(ATTACKS), default=list(ATTACKS))
    parser.add_argument("--model", default="somethings")
    args = parser.parse_args()
    titles = "attack              p95 before   during  ratio  unanswered  healthz  uploads refused"
    print(titles, "memory before  at most  SIGTERM", sep="  ", flush=True)
    failed = 0
    for name in args.only:
        (result,), end = measure([name], args.model, args.seconds)
        times = f"{1000 * result.quiet:8.0f} ms {1000 * result.attacked:5.0f} ms {result.attacked / result.quiet:6.1f}"
        others = f"{result.unanswered:11d} {result.health:6.2f} s {result.refused:>16}"
        sizes = f"{result.before:11.0f} MB {result.most:5.0f} MB {end:6.1f} s"
        print(f"{name:20}{times} {others} {sizes}", *result.problems, "SIGTERM" if end > END else "", flush=True)
        failed += bool(result.problems) or end > END
    sys.exit(failed > 0)


def measure(names: Sequence[str], model: str, seconds: float, drain: float = 5.0) -> tuple[list[Result], float]:
    """The results of some attacks, one after the other, and the seconds that SIGTERM takes during all of them."""
    results = []
    with (
        tempfile.TemporaryDirectory() as folder,
        served(model, 32, None, folder, "--drain", str(drain)) as (url, server),
    ):
        camera = Camera(url)
        with probed(url):
            camera.stream(min(3.0, seconds))  # the first frames and uploads are slower
            quiet = camera.stream(seconds)
        for name in names:
            before = camera.memory = resident(server.pid)
            with attacked(name, url), probed(url) as probes:
                during = camera.stream(seconds, server.pid)
            refused = f"{sum(probes.refused)} of {len(probes.refused)}"
            unanswered = len(camera.sent)
            results.append(Result(name, quiet, during, unanswered, before, camera.memory, max(probes.health), refused))
        with ExitStack() as attacks:
            for name in names:
                attacks.enter_context(attacked(name, url))
            server.send_signal(signal.SIGTERM)
            began = time.monotonic()
            with suppress(subprocess.TimeoutExpired):
                server.wait(3 * END)
            return results, time.monotonic() - began


class Camera:
    """A client that sends frames at a fixed rate, whether answers arrive or not."""

    def __init__(self, url: str) -> None:
        self.pictures = clip(112)
        self.sent: dict[int, float] = {}  # frames without an answer: when they were sent
        self.memory = 0.0  # of the server at most, MB
        self._latencies: list[float] = []
        self._number = 0
        self._closing = ExitStack()
        self._socket = self._closing.enter_context(connect(f"{url.replace('http', 'ws')}/ws", compression=None))
        self._socket.send('{"type": "start", "reset": "never"}')
        assert json.loads(self._socket.recv(60))["type"] == "ready"
        threading.Thread(target=self._read, daemon=True).start()

    def stream(self, seconds: float, server: int | None = None) -> float:
        """The p95 in seconds from a frame to its answer; a frame without one in 10 s counts as 10 s."""
        self._latencies, start = [], time.monotonic()
        for number in range(int(seconds * FPS)):
            time.sleep(max(0.0, start + number / FPS - time.monotonic()))
            self.sent[self._number] = time.monotonic()
            self._socket.send(join_frame(self._number, self._number / FPS, self.pictures[number % len(self.pictures)]))
            self._number += 1
            if server is not None:
                self.memory = max(self.memory, resident(server))
        end = time.monotonic() + 10
        while self.sent and time.monotonic() < end:
            time.sleep(0.01)
        return float(np.quantile(self._latencies + [10.0] * len(self.sent), 0.95))

    def _read(self) -> None:
        with suppress(ConnectionClosed):
            while True:
                message = json.loads(self._socket.recv())
                if message["type"] == "answer":
                    self._latencies.append(time.monotonic() - self.sent.pop(message["frame"]))


@dataclass(frozen=True, slots=True)
class Probes:
    health: list[float] = field(default_factory=list)  # seconds; infinite without an answer 200
    refused: list[bool] = field(default_factory=list)  # whether an upload was refused


@contextmanager
def probed(url: str) -> Iterator[Probes]:
    """A client that asks for `/healthz` and sends an upload, again and again, over a new connection each time."""
    probes, end = Probes(), threading.Event()

    def probe() -> None:
        with httpx.Client(limits=httpx.Limits(max_keepalive_connections=0), timeout=10) as client:
            while not end.wait(PROBE):
                start = time.monotonic()
                try:
                    alive = client.get(f"{url}/healthz").status_code == 200
                except httpx.HTTPError:
                    alive = False
                probes.health.append(time.monotonic() - start if alive else math.inf)
                with suppress(httpx.HTTPError):
                    probes.refused.append(client.post(f"{url}/api/predict", content=b"x").status_code == 503)

    thread = threading.Thread(target=probe)
    thread.start()
    try:
        yield probes
    finally:
        end.set()
        thread.join()


@contextmanager
def attacked(name: str, url: str) -> Iterator[None]:
    """An attack in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.attackers", name, url]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as attacker:
        try:
            assert attacker.stdout is not None
            assert attacker.stdout.readline() == b"ready\n"
            yield
            assert attacker.poll() is None, f"the attack {name} ended with {attacker.returncode}"
        finally:
            attacker.kill()


if __name__ == "__main__":
    main()
