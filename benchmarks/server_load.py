"""Load test: many live streams on one server. Is every accepted frame answered, how fast, and is memory stable?

    python -m benchmarks.server_load --streams 32 --fps 10 --minutes 5 --model somethings

The server runs in a process of its own, started by `horst serve`. All clients run in this process. Each one repeats the
JPEG frames of a clip at a fixed rate, whether answers arrive or not, as a camera does. Exit status 1: an accepted frame
was not answered, or memory grew by more than 10% after the first half minute.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import numpy as np
from PIL import Image as Pictures
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from horst.serving.frames import join_frame

SETTLED = 30.0
"""Seconds until all buffers are full; memory is compared from then on."""
GROWTH = 1.1


@dataclass
class Counts:
    accepted: int = 0
    rejected: int = 0
    evicted: int = 0
    failed: int = 0
    sent: int = 0
    unanswered: int = 0
    out_of_order: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    latencies: list[float] = field(default_factory=list)
    """Seconds from sending a frame to receiving its prediction."""


@contextmanager
def served(
    model: str, streams: int, threads: int | None, folder: str, *more: str, stderr: IO[str] | None = None
) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Address and process of a server."""
    options = ["--port", "0", "--streams", str(streams), "--folder", folder]
    options += [*more] if threads is None else [*more, "--threads", str(threads)]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    server = subprocess.Popen(
        [sys.executable, "-m", "horst", "serve", model, *options],
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        env=environment,
    )
    try:
        assert server.stdout is not None
        line = server.stdout.readline()
        address = next(word for word in line.split() if word.startswith("http")).rstrip("/")
        for _ in range(600):
            try:
                urllib.request.urlopen(f"{address}/healthz", timeout=5).close()
                break
            except OSError:
                time.sleep(0.1)
        yield address, server
    finally:
        server.send_signal(signal.SIGINT)
        try:
            server.wait(timeout=20)
        except subprocess.TimeoutExpired:
            server.kill()
            print("the server did not stop in time")


def clip(size: int) -> list[bytes]:
    """JPEG frames of a synthetic clip."""
    from horst.synth import somethings

    frames = somethings.render(somethings.plan(1, 1000)[0], size=size)
    pictures = []
    for image in frames:
        buffer = io.BytesIO()
        Pictures.fromarray(np.asarray(image)).save(buffer, "jpeg", quality=80)
        pictures.append(buffer.getvalue())
    return pictures


async def stream(
    address: str, pictures: list[bytes], fps: float, reset: str, delay: float, end: float, counts: Counts
) -> None:
    """One client, which starts after `delay` seconds."""
    await asyncio.sleep(delay)
    try:
        async with connect(f"{address.replace('http', 'ws')}/ws", compression=None, open_timeout=60) as socket:
            await socket.send(json.dumps({"type": "start", "reset": reset}))
            if json.loads(await socket.recv())["type"] != "ready":
                counts.rejected += 1
                return
            counts.accepted += 1
            waiting: dict[int, float] = {}
            reading = asyncio.create_task(_read(socket, waiting, counts))
            start, number = time.perf_counter(), 0
            try:
                while time.perf_counter() < end and not reading.done():
                    waiting[number] = time.perf_counter()
                    await socket.send(join_frame(number, number / fps, pictures[number % len(pictures)]))
                    counts.sent += 1
                    number += 1
                    await asyncio.sleep(max(0.0, start + number / fps - time.perf_counter()))
                await socket.send('{"type": "stop"}')
            except ConnectionClosed:
                pass
            evicted = await asyncio.wait_for(reading, 60)
            counts.evicted += evicted
            if not evicted:
                counts.unanswered += len(waiting)
    except InvalidStatus:
        counts.rejected += 1
    except (OSError, TimeoutError, ConnectionClosed) as error:
        print(f"a stream failed: {error!r}")
        counts.failed += 1


async def _read(socket: ClientConnection, waiting: dict[int, float], counts: Counts) -> bool:
    """Receive all answers; whether the server evicted the session. Frames that it had not read were not accepted."""
    async for text in socket:
        message = json.loads(text)
        if message["type"] != "answer":
            return message["type"] != "stopped"
        number = message["frame"]
        if number != next(iter(waiting), None):
            counts.out_of_order += 1
        sent = waiting.pop(number, None)
        counts.statuses[message["status"]] += 1
        if message["status"] == "predicted" and sent is not None:
            counts.latencies.append(time.perf_counter() - sent)
    return True


def resident(pid: int) -> float:
    """Memory of a process in MB."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


async def measure(args: argparse.Namespace, address: str, pid: int) -> int:
    counts, pictures = Counts(), clip(args.size)
    begin = time.perf_counter()
    end = begin + 60 * args.minutes
    memory = [resident(pid)]
    print(f"memory at the start {memory[0]:.0f} MB", flush=True)
    tasks = [
        asyncio.create_task(stream(address, pictures, args.fps, args.reset, 0.1 * i, end, counts))
        for i in range(args.streams)
    ]
    settled, minutes = 0.0, 0
    while not all(task.done() for task in tasks):
        await asyncio.sleep(min(1.0, max(0.05, end - time.perf_counter())))
        passed = time.perf_counter() - begin
        if not settled and passed >= min(SETTLED, 30 * args.minutes):
            settled = resident(pid)
        if int(passed / 60) > minutes:
            minutes = int(passed / 60)
            print(f"memory after {minutes} min {resident(pid):.0f} MB, {_latency(counts)}", flush=True)
    await asyncio.gather(*tasks)
    last = resident(pid)
    with urllib.request.urlopen(f"{address}/metrics") as response:
        lines = response.read().decode().splitlines()
    failures = next((line for line in lines if line.startswith("horst_failures_total")), "")
    print(f"streams: {counts.accepted} accepted, {counts.rejected} rejected, {counts.evicted} evicted, ",
          f"{counts.failed} failed; {failures}", sep="")  # fmt: skip
    answered = ", ".join(f"{n} {status}" for status, n in counts.statuses.most_common())
    print(f"frames: {counts.sent} sent, {sum(counts.statuses.values())} answered ({answered}), "
          f"{counts.unanswered} accepted and not answered, {counts.out_of_order} out of order")  # fmt: skip
    print(_latency(counts))
    print(f"memory: {memory[0]:.0f} MB at the start, {settled:.0f} MB settled, {last:.0f} MB at the end")
    bad = counts.unanswered or counts.out_of_order or counts.failed or not counts.accepted or last > GROWTH * settled
    return 1 if bad else 0


def _latency(counts: Counts) -> str:
    if not counts.latencies:
        return "no predictions"
    p50, p95, p99 = 1e3 * np.percentile(counts.latencies, (50, 95, 99))
    return f"latency p50 {p50:.0f} ms, p95 {p95:.0f} ms, p99 {p99:.0f} ms"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=32)
    parser.add_argument("--fps", type=float, default=10.0)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--model", default="somethings")
    parser.add_argument("--size", type=int, default=112, help="height and width of the frames")
    parser.add_argument("--reset", default="auto", help="auto uses three states per stream, never uses one")
    parser.add_argument("--threads", type=int, help="of the models; chosen by the server by default")
    args = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        served(args.model, args.streams, args.threads, folder) as (url, server),
    ):
        return asyncio.run(measure(args, url, server.pid))


if __name__ == "__main__":
    sys.exit(main())
