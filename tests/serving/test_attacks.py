"""What a client without a token may try: others are served all the while, and nothing is held for long."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import select
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import av
import httpx
import numpy as np
import pytest
import videos
from servers import Running, check_serving, frame, http, metrics, picture, running, tiny, wait_for
from starlette.requests import Request

from benchmarks.attackers import ATTACKS, upgrade_head
from benchmarks.attackers import message as masked
from benchmarks.attacks import END, measure
from horst.models import save
from horst.serving import Limits, uploads
from horst.serving.app import page_url
from horst.serving.client import Client
from horst.serving.connections import FREE_CHUNKS, SMALL
from horst.serving.errors import ApiError
from horst.serving.guard import LOCAL, _hostname
from horst.serving.rate_limiter import RateLimiter
from horst.serving.synthetic import CLIPS
from horst.serving.uploads import OLD
from horst.video.decode import VideoFile
from horst.video.encode import write_video
from horst.video.frame import Frame

LIMITS = Limits(load=1000.0, head=1.0, body=1.0, waiting=20, slow=2.0, streams=4, video_pixels=4_000_000)
LARGE = 20 << 20


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("attacked"), LIMITS) as server:
        yield server


def connect(server: Running, data: bytes = b"") -> socket.socket:
    client = socket.create_connection(("127.0.0.1", int(server.url.rsplit(":", 1)[1])))
    client.settimeout(10)
    client.sendall(data)
    return client


def ended(client: socket.socket) -> bytes:
    """All that the server sends until it ends the connection."""
    found = b""
    with contextlib.suppress(ConnectionError):
        while piece := client.recv(65536):
            found += piece
    client.close()
    return found


def slow_down(monkeypatch: pytest.MonkeyPatch) -> list[Frame]:
    """Let every frame of a video take 50 ms; returns those that are read."""
    frames, read = VideoFile.frames, list[Frame]()

    def slow(self: VideoFile) -> Iterator[Frame]:
        for one in frames(self):
            time.sleep(0.05)
            read.append(one)
            yield one

    monkeypatch.setattr(VideoFile, "frames", slow)
    return read


@pytest.mark.parametrize("start", [b"", b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\nx-header: "])
def test_connections_without_a_request(server: Running, start: bytes) -> None:
    held = [connect(server, start) for _ in range(10 * LIMITS.waiting)]
    began = time.monotonic()
    for _ in range(5):
        assert http.get(f"{server.url}/healthz").status_code == 200
    check_serving(server)
    for client in held:
        assert ended(client) == b""
    assert time.monotonic() - began < LIMITS.head + 5


def test_kept_alive_connections_need_a_whole_head_too(server: Running) -> None:
    client, found = connect(server, b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"), b""
    while not found.endswith(b"}"):
        found += client.recv(65536)
    client.sendall(b"GET /healthz HTTP/1.1\r\n")
    began = time.monotonic()
    assert ended(client) == b""
    assert LIMITS.head / 2 < time.monotonic() - began < LIMITS.head + 5


@pytest.mark.parametrize("head", [upgrade_head("?" + 9000 * "x"), upgrade_head("", 300 * "a: b\r\n")])
def test_upgrades_that_only_http_accepts(server: Running, head: bytes) -> None:
    """The WebSocket parser takes shorter lines and fewer headers."""
    held = [connect(server, head) for _ in range(10 * LIMITS.waiting)]
    assert http.get(f"{server.url}/healthz").status_code == 200
    for client in held[-3:]:
        assert ended(client).startswith((b"HTTP/1.1 414", b"HTTP/1.1 431"))
    for client in held:
        client.close()
    check_serving(server)


def test_requests_without_their_bodies(server: Running) -> None:
    head = b"POST /api/teach HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 10\r\n\r\n"
    held = [connect(server, head) for _ in range(10 * LIMITS.waiting)]
    for _ in range(5):
        assert http.get(f"{server.url}/healthz").status_code == 200
    for client in held:
        client.close()
    check_serving(server)


def large(server: Running) -> bytes:
    """A request whose answer has 20 MB: more than the kernel takes for a client that does not read."""
    path = server.folder / "samples" / f"{CLIPS[0][0]}.mp4"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(bytes(LARGE))
    return b"GET /api/samples/sample-1.mp4 HTTP/1.1\r\nhost: 127.0.0.1\r\n"


@pytest.mark.parametrize("end", [b"\r\n", b"connection: close\r\n\r\n"])
def test_answers_that_are_not_read(tmp_path: Path, end: bytes) -> None:
    with running(tmp_path, replace(LIMITS, slow=0.3)) as server:
        request = large(server) + end
        held = [connect(server, request) for _ in range(10 * LIMITS.waiting)]
        for _ in range(5):
            assert http.get(f"{server.url}/healthz").status_code == 200
        time.sleep(4.0)
        for client in held:
            assert len(ended(client)) < LARGE


def test_answers_that_are_read_slowly(server: Running) -> None:
    """At 40 times the lowest rate."""
    client = connect(server, large(server) + b"connection: close\r\n\r\n")
    began, found = time.monotonic(), b""
    while time.monotonic() - began < 3 * LIMITS.slow:
        found += client.recv(1 << 16)
        time.sleep(0.1)
    assert len(found + ended(client)) > LARGE


def test_pipelined_requests_get_one_answer(server: Running) -> None:
    found = ended(connect(server, 100 * b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"))
    assert found.count(b"HTTP/1.1 200") == 1


def chunked(server: Running, chunk: bytes, count: int) -> bytes:
    head = b"POST /api/recordings/wave HTTP/1.1\r\nhost: 127.0.0.1\r\ntransfer-encoding: chunked\r\n\r\n"
    client = connect(server, head)
    with contextlib.suppress(ConnectionError):
        client.sendall(count * (b"%x\r\n%s\r\n" % (len(chunk), chunk)) + b"0\r\n\r\n")
    return client.recv(4096)


def test_small_chunks(server: Running) -> None:
    """A body may have some, of any size, and any number of others."""
    for chunk, count in ((b"x", FREE_CHUNKS), (bytes(SMALL), 1000)):
        assert chunked(server, chunk, count).startswith(b"HTTP/1.1 422")
    assert chunked(server, b"x", 250_000).startswith(b"HTTP/1.1 400")
    check_serving(server)


def test_uploads_that_stall(server: Running, tmp_path: Path) -> None:
    head = b"POST /api/predict HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 100000\r\n\r\n"
    held = [connect(server, head + bytes(10)) for _ in range(LIMITS.uploads + 1)]
    clip = videos.clip(tmp_path / "clip.mp4", frames=10, fps=10).read_bytes()
    answer = http.post(f"{server.url}/api/predict", content=clip, timeout=30)
    assert answer.status_code == 200, answer.text
    for client in held:
        assert ended(client).startswith(b"HTTP/1.1 408")
    assert not list((server.folder / "uploads").iterdir())


OTHER = httpx.Client(transport=httpx.HTTPTransport(local_address="127.0.0.2"))


@pytest.fixture
def bodies(tmp_path: Path) -> Iterator[tuple[Running, list[socket.socket]]]:
    """A server, and as many bodies as may arrive at once. They stall."""
    head = b"POST /api/recordings/wave HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 60000000\r\n\r\n"
    with running(tmp_path, replace(LIMITS, body=1000.0)) as server:
        held = [connect(server, head + bytes(100)) for _ in range(LIMITS.bodies)]
        wait_for(lambda: len(list((server.folder / "uploads").glob("upload-*"))) == LIMITS.bodies)
        yield server, held
        for client in held:
            client.close()
        wait_for(lambda: not list((server.folder / "uploads").iterdir()))


@pytest.mark.parametrize("slow", [True, False])
@pytest.mark.parametrize("own", [True, False])
def test_bodies_that_arrive_are_few(
    bodies: tuple[Running, list[socket.socket]], monkeypatch: pytest.MonkeyPatch, own: bool, slow: bool
) -> None:
    """A further one ends a slow one of its address, or any of an address that has more."""
    server, held = bodies
    monkeypatch.setattr(uploads, "NEW", 0.0 if slow else 1e9)
    if not own and not Path("/proc").exists():
        pytest.skip("only Linux has the address 127.0.0.2 without being told")
    answer = (http if own else OTHER).post(f"{server.url}/api/recordings/wave", content=b"x")
    ends = slow or not own
    assert answer.status_code == (422 if ends else 503), answer.text
    if ends:
        wait_for(lambda: len(list((server.folder / "uploads").glob("upload-*"))) == LIMITS.bodies - 1)
        (first, *_), _, _ = select.select(held, [], [], 20)
        assert b"its place" in ended(first)


def test_a_body_ends_also_while_a_piece_of_it_is_written() -> None:
    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"piece", "more_body": True}

    async def run() -> None:
        body = uploads.Body(Request({"type": "http", "headers": []}, receive), "", LIMITS)
        pieces = body.pieces()
        assert await anext(pieces) == b"piece"
        body.end()
        with pytest.raises(ApiError, match="its place"):
            await anext(pieces)

    asyncio.run(run())


def test_the_slowest_body_ends(bodies: tuple[Running, list[socket.socket]], monkeypatch: pytest.MonkeyPatch) -> None:
    server, held = bodies
    for client in held[:3] + held[4:]:
        client.sendall(bytes(50_000))
    wait_for(lambda: sum(file.stat().st_size for file in server.folder.glob("uploads/*/body")) > 50_000)
    time.sleep(1.0)  # until it has read what was sent
    monkeypatch.setattr(uploads, "NEW", 0.0)
    assert http.post(f"{server.url}/api/recordings/wave", content=b"x").status_code == 422
    assert b"its place" in ended(held[3])


@pytest.mark.skipif(not Path("/proc").exists(), reason="only Linux has the address 127.0.0.2 without being told")
def test_videos_of_one_address_leave_a_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow_down(monkeypatch)
    clip = videos.clip(tmp_path / "clip.mp4", frames=600, fps=20).read_bytes()
    head = b"POST /api/predict HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: %d\r\n\r\n" % len(clip)
    with running(tmp_path / "served", replace(LIMITS, uploads=1)) as server:
        first = connect(server, head + clip)
        wait_for(lambda: [one.stat().st_size for one in server.folder.glob("uploads/*/body")] == [len(clip)])
        time.sleep(0.5)  # until it has its place
        assert http.post(f"{server.url}/api/predict", content=b"x").status_code == 503
        with ThreadPoolExecutor() as pool:
            other = pool.submit(OTHER.post, f"{server.url}/api/predict", content=b"x", timeout=60)
            wait_for(lambda: len(list(server.folder.glob("uploads/*/body"))) == 2)
            first.close()
            assert other.result().status_code == 422


@pytest.mark.parametrize(("rate", "status"), [(1e9, b"HTTP/1.1 408"), (1.0, b"HTTP/1.1 422")])
def test_lowest_rate_of_a_body(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rate: float, status: bytes) -> None:
    """30 bytes, one at a time. None of them is late, but all together may be."""
    monkeypatch.setattr(uploads, "MIN_RATE", rate)
    with running(tmp_path, replace(LIMITS, body=2.0)) as server:
        client = connect(server, b"POST /api/predict HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 30\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            for _ in range(30):
                client.sendall(b"x")
                time.sleep(0.1)
        assert client.recv(4096).startswith(status)
        client.close()


@pytest.mark.parametrize("length", [None, 10, 10**9])
def test_large_and_slow_json(server: Running, length: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("horst.serving.guard.BODY_SECONDS", 0.5)
    how = "transfer-encoding: chunked" if length is None else f"content-length: {length}"
    head = f"POST /api/teach HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n{how}\r\n\r\n"
    client, chunk = connect(server, head.encode()), bytes(1 << 15)
    with contextlib.suppress(ConnectionError):
        for _ in range(0 if length == 10 else 20):
            client.sendall(chunk if length else f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n")
        assert client.recv(4096).startswith(b"HTTP/1.1 4")
    client.close()
    check_serving(server)


def test_the_server_stops_while_a_video_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow_down(monkeypatch)
    clip = videos.clip(tmp_path / "clip.mp4", frames=600, fps=20).read_bytes()
    with running(tmp_path / "served") as server:
        client = connect(
            server, b"POST /api/predict HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: %d\r\n\r\n" % len(clip) + clip
        )
        wait_for(lambda: bool(list(server.folder.glob("uploads/*/body"))))
        began = time.monotonic()
    assert time.monotonic() - began < 10
    client.close()


def test_many_pixels(server: Running, tmp_path: Path) -> None:
    """A video of half a second at thousands of frames per second."""
    write_video(tmp_path / "dense.mp4", [np.zeros((100, 200, 3), np.uint8)] * 300, 600)
    answer = http.post(f"{server.url}/api/predict", content=(tmp_path / "dense.mp4").read_bytes(), timeout=30)
    assert answer.status_code == 413
    assert "pixels" in answer.json()["error"]["message"]


def test_work_ends_when_the_client_leaves(server: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = slow_down(monkeypatch)
    clip = videos.clip(tmp_path / "clip.mp4", frames=200, fps=20).read_bytes()
    with pytest.raises(httpx.ReadTimeout):
        http.post(f"{server.url}/api/predict", content=clip, timeout=1.0)
    wait_for(lambda: not list((server.folder / "uploads").iterdir()), timeout=3.0)
    assert 0 < len(read) < 100


def test_recorded_frames_with_many_pixels(server: Running) -> None:
    large = frame(0, 0.0, picture(0, size=(1200, 1900)))
    answer = http.post(f"{server.url}/api/recordings/wave", content=len(large).to_bytes(4, "little") + large)
    assert answer.status_code == 422
    assert f"the limit is {LIMITS.recording_pixels}" in answer.json()["error"]["message"]


def upgraded(server: Running) -> socket.socket:
    """A WebSocket whose client does not read."""
    client = connect(server, upgrade_head())
    assert client.recv(4096).startswith(b"HTTP/1.1 101")
    return client


@pytest.mark.parametrize(
    "message", [masked(9, bytes(125)), masked(2, frame(1, 0.0, b"no image"))], ids=["ping", "frame"]
)
def test_a_client_that_does_not_read(server: Running, message: bytes) -> None:
    client, sent, burst = upgraded(server), 0, 1000 * message
    client.settimeout(LIMITS.slow + 8)
    client.sendall(masked(1, b'{"type": "start"}'))
    with contextlib.suppress(ConnectionError):
        while sent < 200 << 20:
            client.sendall(burst)
            sent += len(burst)
    client.close()
    assert sent < 20 << 20  # the server's buffer has a limit, and those of the kernel
    wait_for(lambda: "horst_streams 0\n" in metrics(server), timeout=10)
    check_serving(server)


def test_refused_sockets_are_no_errors(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with running(tmp_path, token="secret-token") as server:
        logger = logging.getLogger("uvicorn.error")  # uvicorn does not pass its records on
        logger.addHandler(caplog.handler)
        for _ in range(3):
            with pytest.raises(Exception, match="401"), server.socket({}):
                pass
        logger.removeHandler(caplog.handler)
    assert not caplog.records


def test_a_damaged_model_is_listed_as_such(tmp_path: Path) -> None:
    with running(tmp_path) as server:
        for name, text in (("broken", "{"), ("other", '{"format": 99}'), ("empty", "{}"), ("list", "[]")):
            save(server.model, server.folder / "models" / name)
            (server.folder / "models" / name / "config.json").write_text(text)
        save(server.model, server.folder / "models" / "good")
        answer = http.get(f"{server.url}/api/models")
        assert answer.status_code == 200
        found = {one["name"]: one["error"] for one in answer.json() if one["finetuned"]}
        assert found.pop("good") is None
        assert set(found) == {"broken", "other", "empty", "list"}
        assert all("damaged" in error for error in found.values())
        assert str(tmp_path) not in answer.text
        refused = http.post(f"{server.url}/api/predict?model=broken", content=b"x")
        assert refused.status_code == 422
        assert str(tmp_path) not in refused.text


@pytest.mark.parametrize("token", ["a+b%20c&d=e", "[bold]#secret", "100%-secret"])
def test_tokens_of_any_characters(tmp_path: Path, token: str) -> None:
    with running(tmp_path, token=token) as server:
        port = int(server.url.rsplit(":", 1)[1])
        with Client(page_url("127.0.0.1", port, token)) as client:
            assert client.ready["model"] == "tiny"


def test_host_with_something_behind_an_address() -> None:
    assert {_hostname(name) for name in ("[::1]", "[::1]:80", "127.0.0.1:8000", "LOCALHOST")} == set(LOCAL)
    for name in (
        "[::1]evil.com",
        "[::1]evil.com:80",
        "[::1",
        "::1",
        "localhost:80:80",
        "a@localhost",
        "localhost:",
        "",
    ):
        assert _hostname(name) not in LOCAL, name


def test_text_within_a_video_is_no_playlist(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """FFmpeg would take it for a description of network streams."""
    text = b"\nv=0\nc=IN IP4 127.0.0.1\nm=video 5004 RTP/AVP 96\na=rtpmap:96 H264/90000\n"
    body, opened, formats = (b"G" + text).ljust(188, b"\n") + b"G" + b"\n" * 400, av.open, list[str | None]()

    def watched(path: str, **options: Any) -> Any:
        formats.append(options.get("format"))
        return opened(path, **options)

    monkeypatch.setattr(av, "open", watched)
    assert http.post(f"{server.url}/api/predict", content=body).status_code == 422
    assert formats == ["mpegts"]


def test_files_that_a_killed_server_left(tmp_path: Path) -> None:
    for name in ("upload-old", "upload-new"):
        (tmp_path / "uploads" / name).mkdir(parents=True)
    past = time.time() - OLD - 60
    os.utime(tmp_path / "uploads" / "upload-old", (past, past))
    with running(tmp_path):
        assert [left.name for left in (tmp_path / "uploads").iterdir()] == ["upload-new"]


def test_many_small_messages(server: Running) -> None:
    """What is read at once is little, and the session ends: other clients do not wait."""
    client = upgraded(server)
    client.sendall(masked(1, b'{"type": "start"}'))
    with contextlib.suppress(ConnectionError):
        for _ in range(100):
            client.sendall(1000 * masked(2, frame(1, 0.0, b"")))
    ended(client)
    wait_for(lambda: "horst_streams 0\n" in metrics(server), timeout=10)
    check_serving(server)


def test_small_fragments(server: Running) -> None:
    """A message may have some. With more, the session ends."""
    client, parts = upgraded(server), [frame(1, 0.0)[i : i + 40] for i in range(0, len(frame(1, 0.0)), 40)]
    client.sendall(masked(1, b'{"type": "start"}') + masked(2, parts[0], final=False))
    client.sendall(b"".join(masked(0, part, final=False) for part in parts[1:]) + masked(0, b""))
    found = b""
    while b"answer" not in found:
        found += client.recv(4096)
    assert b'"predicted"' in found
    client.sendall(masked(2, b"x", final=False))
    with contextlib.suppress(ConnectionError):
        client.sendall(20_000 * masked(0, b"", final=False))
    ended(client)
    wait_for(lambda: "horst_streams 0\n" in metrics(server), timeout=10)
    check_serving(server)


def test_bodies_have_one_rate() -> None:
    arriving = RateLimiter(1000.0, 100.0)
    assert arriving.spend(100) == 0
    assert arriving.spend(500) == pytest.approx(0.5, abs=0.05)
    assert arriving.spend(500) == pytest.approx(1.0, abs=0.05)


@pytest.mark.integration
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the memory of another process is read from /proc")
def test_other_clients_during_attacks(tmp_path: Path) -> None:
    """Latency and memory during each attack, and the end by SIGTERM during all of them."""
    model, names = save(tiny(), tmp_path / "tiny"), list(ATTACKS)
    for _ in range(3):  # again, as tests that run beside it slow one phase or another
        results, end = measure(names, str(model), 1.5, drain=1.0)
        assert end < END
        names = [result.name for result in results if result.problems]
        if not names:
            return
    raise AssertionError(results)


@pytest.mark.parametrize("path", ["/api/predict", "/api/teach", "/healthz", "/none"])
@pytest.mark.parametrize("body", [b"xyz\r\n", b"5\r\nabcde\r\nxyz\r\n", b"0\r\n\x00: x\r\n\r\n"])
def test_malformed_bodies_are_no_errors(
    tmp_path: Path, path: str, body: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    with running(tmp_path) as server:
        head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n".encode()
        for pause in (0.0, 0.1):  # the body after the answer, too
            client = connect(server, head)
            time.sleep(pause)
            client.sendall(body)
            assert not ended(client).startswith(b"HTTP/1.1 5")
        assert "horst_failures_total 0\n" in metrics(server)
    assert "Traceback" not in capfd.readouterr().err
