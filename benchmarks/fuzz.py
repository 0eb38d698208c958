"""Invalid messages and requests for a server: nothing but documented answers, and nothing in its log.

    python -m benchmarks.fuzz [--messages 100000] [--requests 10000] [--seed 0] [--model somethings]

Messages go over many WebSockets, within the limits on rates: frames with changed bytes and times, changed JSON, noise.
Requests have changed paths, queries, headers and bodies. Exit status 1: a status of 500 or more that is not 503,
a message that is not documented, a failure in the metrics, or a line in the server's log.
"""

import argparse
import asyncio
import io
import json
import random
import struct
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image as Pictures
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from benchmarks.server_load import served
from horst.serving.frames import join_recording

SESSIONS, CALLERS = 24, 24  # at once
RATE = 50.0  # messages per second of a session
LENGTH = 400  # messages of a session at most
KINDS = {"ready", "answer", "reset", "stopped", "busy", "error"}
VALUES: list[Any] = [None, True, 0, -1, 1e308, 10**30, "", "x" * 3000, "\u0000", "../..", [], {}, [[[]]], "auto", 3]


class Found:
    """What the server answered."""

    def __init__(self) -> None:
        self.messages: Counter[str] = Counter()
        self.statuses: Counter[int] = Counter()
        self.sent = 0
        self.problems: list[str] = []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--model", default="somethings")
    args = parser.parse_args()
    problems = fuzz(args.model, args.messages, args.requests, args.seed)
    for problem in problems[:20]:
        print("PROBLEM:", problem)
    sys.exit(bool(problems))


def fuzz(model: str, messages: int, requests: int, seed: int) -> list[str]:
    """Problems."""
    found, start = Found(), time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        with log.open("w") as errors, served(model, SESSIONS + 8, None, folder, stderr=errors) as (url, _):
            asyncio.run(send_all(url, messages, requests, seed, found))
            with urllib.request.urlopen(f"{url}/metrics") as response:
                metrics = response.read().decode()
        text = log.read_text()
    if "horst_failures_total 0\n" not in metrics:
        found.problems.append("horst_failures_total is not 0")
    found.problems += [f"log: {line}" for line in text.splitlines() if line.strip()]
    print(f"{found.sent} messages: {dict(found.messages.most_common())}")
    print(f"{sum(found.statuses.values())} requests: {dict(sorted(found.statuses.items()))}")
    print(f"log of the server: {len(text.splitlines())} lines; {time.monotonic() - start:.0f} s")
    return found.problems


async def send_all(url: str, messages: int, requests: int, seed: int, found: Found) -> None:
    async with asyncio.TaskGroup() as group:
        for number in range(SESSIONS):
            group.create_task(sessions(url, messages, random.Random(f"{seed} {number}"), found))
        for number in range(CALLERS):
            group.create_task(callers(url, requests, random.Random(f"{seed} call {number}"), found))


async def sessions(url: str, messages: int, rng: random.Random, found: Found) -> None:
    """Sessions, one after the other, until enough messages are sent."""
    while found.sent < messages:
        try:
            async with connect(url.replace("http", "ws") + "/ws", compression=None, open_timeout=60) as socket:
                reading = asyncio.create_task(read(socket, found))
                try:
                    await session(socket, messages, rng, found, reading)
                finally:
                    await asyncio.wait([reading], timeout=1)
                    reading.cancel()
        except ConnectionClosed:
            pass
        except InvalidStatus as error:
            if error.response.status_code != 503:
                found.problems.append(f"a handshake: {error}")
            await asyncio.sleep(0.2)


async def session(
    socket: ClientConnection, messages: int, rng: random.Random, found: Found, reading: asyncio.Task[None]
) -> None:
    start: dict[str, Any] = {"type": "start", "reset": "never"}
    await socket.send(json.dumps(start if rng.random() < 0.8 else changed(start, rng)))
    found.sent += 1
    for number in range(LENGTH):
        if found.sent >= messages or reading.done():
            return
        await socket.send(message(number, rng))
        found.sent += 1
        await asyncio.sleep(1 / RATE)


async def read(socket: ClientConnection, found: Found) -> None:
    try:
        async for text in socket:
            answer = json.loads(text)
            found.messages[answer.get("status") or answer.get("code") or answer["type"]] += 1
            if answer["type"] not in KINDS or answer.get("code") == "internal":
                found.problems.append(f"a message: {answer}")
    except ConnectionClosed as closed:
        if closed.rcvd is not None and closed.rcvd.code == 1011:
            found.problems.append(f"closed: {closed}")


def message(number: int, rng: random.Random) -> str | bytes:
    """Most leave the session open: after an invalid text it is closed."""
    if rng.random() < 0.01:
        texts = [
            json.dumps(changed({"type": rng.choice(["start", "reset", "stop", "x"])}, rng)),
            noise(rng).decode("latin-1"),
        ]
        return rng.choice([*texts, "[" * 4000, "{" + '"a":{' * 700, ""])
    if rng.random() < 0.05:
        return '{"type": "reset"}'
    image = rng.choice(IMAGES)
    if rng.random() < 0.7:
        image = mutated(image, rng)
    moments = [number / 10, number / 10, number / 10, rng.uniform(-1e3, 1e3), float("nan"), float("inf"), -1e300, 1e18]
    head = struct.pack("<Id", rng.choice([number, rng.getrandbits(32)]), rng.choice(moments))
    return rng.choice([head + image] * 8 + [head, head[: rng.randrange(12)], noise(rng), image])


async def callers(url: str, requests: int, rng: random.Random, found: Found) -> None:
    host, port = url.removeprefix("http://").split(":")
    while sum(found.statuses.values()) < requests:
        try:
            async with asyncio.timeout(150):
                reader, writer = await asyncio.open_connection(host, int(port))
                writer.write(request(rng))
                line = await reader.readline()
                writer.transport.abort()
        except TimeoutError:
            found.problems.append("a request was not answered in 150 s")
            continue
        except ConnectionError:
            line = b""
        status = int(line.split()[1]) if line.startswith(b"HTTP/1.1 ") else 0  # 0: the connection was ended
        found.statuses[status] += 1
        if status >= 500 and status != 503:
            found.problems.append(f"a request: {line!r}")


PATHS = [
    *("/", "/docs", "/openapi.json", "/healthz", "/healthz/ready", "/metrics", "/api/info", "/api/models", "/ws"),
    *("/api/models/somethings/model.zip", "/api/models/x/model.onnx", "/api/samples", "/api/samples/x.mp4"),
    *("/api/predict", "/api/render", "/api/recordings", "/api/recordings/wave", "/api/recordings/wave/video"),
    *("/api/recordings/wave/0", "/api/teach"),
]
TOKENS = [
    "%00",
    "%ff",
    "..",
    "//",
    "%2e%2e%2f",
    "\u00e9",
    "a" * 300,
    "'",
    "{}",
    ";",
    "?",
    "&",
    "=",
    "#",
    "%",
    "null",
    "-1",
]


def request(rng: random.Random) -> bytes:
    method = rng.choice(["GET"] * 6 + ["POST"] * 6 + ["DELETE"] * 2 + ["PUT", "HEAD", "OPTIONS", "get", "\u00e9"])
    path = rng.choice(PATHS)
    if rng.random() < 0.5:
        at = rng.randrange(len(path) + 1)
        path = path[:at] + rng.choice(TOKENS) + path[at:]
    if rng.random() < 0.5:
        names = ["model", "top", "reset", "token", "x"]
        path += "?" + "&".join(
            f"{rng.choice(names)}={rng.choice([*TOKENS, '3', 'auto'])}" for _ in range(rng.randrange(4))
        )
    values = [{"name": "x", "overwrite": True}, {"name": "../x"}, [], "x", 3]
    recording = join_recording([i / 10 for i in range(3)], IMAGES)
    bodies = [
        b"",
        noise(rng),
        json.dumps(changed(rng.choice(values), rng)).encode(),
        mutated(recording, rng),
        mutated(VIDEO, rng),
    ]
    body = rng.choice(bodies)
    headers = ["host: localhost", f"content-length: {len(body)}", "connection: close"]
    if rng.random() < 0.3:
        extra = [
            "content-type: application/json",
            "range: bytes=5-1",
            "range: bytes=-",
            "origin: null",
            "expect: 100-continue",
        ]
        extra += [
            "transfer-encoding: chunked",
            "content-length: -1",
            "content-length: 99999999999",
            "x: \u00e9",
            ": x",
            "host: x",
        ]
        extra += ["authorization: Bearer \u00e9", "upgrade: websocket", "sec-websocket-key: x", "cookie: " + "x" * 9000]
        headers.append(rng.choice(extra))
        if rng.random() < 0.2:
            headers.pop(rng.randrange(3))
    head = f"{method} {path} HTTP/{rng.choice(['1.1'] * 20 + ['1.0', '9'])}\r\n" + "\r\n".join(headers) + "\r\n\r\n"
    data = head.encode("utf-8", "replace") + body
    return mutated(data, rng) if rng.random() < 0.1 else data


def changed(value: Any, rng: random.Random) -> Any:
    """Other entries, types and values."""
    if not isinstance(value, dict) or rng.random() < 0.1:
        return rng.choice(VALUES)
    options = ["model", "reset", "seconds", "states", "top", "threshold", "attention", "type", "name", "x"]
    return value | {rng.choice(options): rng.choice(VALUES) for _ in range(rng.randrange(3))}


def mutated(data: bytes, rng: random.Random) -> bytes:
    """Some bytes changed, removed, repeated or cut off."""
    array = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 8, 64])):
        at = rng.randrange(len(array) + 1)
        kind = rng.randrange(5)
        if kind == 0:
            del array[at:]
        elif kind == 1:
            del array[at : at + rng.randrange(20)]
        elif kind == 2:
            array[at:at] = array[at : at + rng.randrange(100)]
        elif at < len(array):
            array[at] = rng.randrange(256)
    return bytes(array)


def noise(rng: random.Random) -> bytes:
    return rng.randbytes(rng.choice([0, 1, 3, 12, 13, 100, 5000]))


def images() -> list[bytes]:
    found, pixels = [], np.random.default_rng(0).integers(0, 255, (30, 40, 3), np.uint8)
    for kind in ("jpeg", "png", "webp"):
        buffer = io.BytesIO()
        Pictures.fromarray(pixels).save(buffer, kind)
        found.append(buffer.getvalue())
    return found


def video() -> bytes:
    from horst.video.encode import write_video

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "clip.mp4"
        write_video(path, [np.full((32, 32, 3), 9 * i, np.uint8) for i in range(12)], fps=12)
        return path.read_bytes()


IMAGES = images()
VIDEO = video()


if __name__ == "__main__":
    main()
