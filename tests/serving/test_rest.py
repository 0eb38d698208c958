"""The REST routes: examples, invalid requests, and Schemathesis over the OpenAPI description."""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
import videos
from hypothesis import HealthCheck, given, settings
from servers import SIZE, Running, check_serving, http, metrics, recording, running

from horst.models import save
from horst.serving import Limits
from horst.video.decode import VideoFile

SMALL = Limits(load=1000, upload_bytes=200_000, video_seconds=20)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("served") / "folder", SMALL) as server:
        yield server


def test_info_and_models(server: Running) -> None:
    assert http.get(f"{server.url}/healthz").json() == {"status": "ok", "full": False}
    info = http.get(f"{server.url}/api/info").json()
    assert (info["model"], info["fps"], info["size"], info["needs_token"]) == ("tiny", 5.0, list(SIZE), False)
    assert len(info["labels"]["action"]) == 4
    models = {model["name"]: model for model in http.get(f"{server.url}/api/models").json()}
    assert set(models) >= {"tiny", "somethings", "kitchen"}
    assert models["kitchen"]["tasks"] == {"action": 75, "verb": 14, "noun": 20}
    assert not models["tiny"]["finetuned"]
    assert [name for name, model in models.items() if model["synthetic"]] == ["kitchen", "somethings"]


def test_finetuned_model_is_served_at_once(server: Running) -> None:
    save(server.model, server.folder / "models" / "mine")
    models = http.get(f"{server.url}/api/models").json()
    assert {
        "name": "mine",
        "title": "mine",
        "fps": 5.0,
        "size": list(SIZE),
        "tasks": {"action": 4},
        "finetuned": True,
        "synthetic": False,
        "error": None,
    } in models
    with server.socket({"model": "mine"}):
        pass
    save(server.model, server.folder / "models" / "mine", overwrite=True)
    with server.socket({"model": "mine"}):
        pass
    assert http.post(f"{server.url}/api/predict?model=../models/mine", content=b"x").status_code == 422


@pytest.mark.parametrize(
    ("file", "text"), [("labels.json", "{"), ("labels.json", "[]"), ("config.json", "{"), ("config.json", "3")]
)
def test_damaged_model_hides_no_other(server: Running, file: str, text: str) -> None:
    folder = save(server.model, server.folder / "models" / "broken", overwrite=True)
    (folder / file).write_text(text)
    try:
        models = {model["name"]: model["error"] for model in http.get(f"{server.url}/api/models").json()}
        assert {name for name, error in models.items() if error is None} >= {"tiny", "somethings", "kitchen"}
        assert "damaged" in models["broken"]
        response = http.post(f"{server.url}/api/predict?model=broken", content=b"x")
        assert (response.status_code, response.json()["error"]["code"]) == (422, "model")
        assert str(server.folder.parent) not in response.text
    finally:
        shutil.rmtree(folder)


def test_predict_equals_a_local_stream(server: Running, tmp_path: Path) -> None:
    path = videos.clip(tmp_path / "clip.mp4", frames=20, fps=10)
    response = http.post(f"{server.url}/api/predict?top=2", content=path.read_bytes(), timeout=60)
    assert response.status_code == 200, response.text
    with VideoFile(path, size=SIZE) as video:
        expected = [p.to_dict(2) for p in server.model.stream().watch(video.frames(), video.info.duration)]
    predictions = response.json()["predictions"]
    assert [{**one, "latency": 0} for one in predictions] == [{**one, "latency": 0} for one in expected]
    assert not list((server.folder / "uploads").iterdir())


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 422),
        (b"garbage", 422),
        (b"#EXTM3U\n#EXTINF:1,\nfile:///etc/passwd\n", 422),
        (b"ffconcat version 1.0\nfile /etc/passwd\n", 422),
        (b"\0\0\0\x20ftypisom" + bytes(500), 422),
        (b"\x1a\x45\xdf\xa3" + bytes(500), 422),
        (bytes(300_000), 413),
    ],
)
def test_invalid_uploads(server: Running, body: bytes, status: int) -> None:
    response = http.post(f"{server.url}/api/predict", content=body)
    assert response.status_code == status, response.text
    assert set(response.json()["error"]) == {"code", "message"}
    assert str(server.folder) not in response.text
    assert not list((server.folder / "uploads").iterdir())


def test_body_without_length_is_limited(server: Running) -> None:
    def pieces() -> Iterator[bytes]:
        for _ in range(100):
            yield bytes(10_000)

    with contextlib.suppress(httpx.WriteError, httpx.RemoteProtocolError):  # refused before all was sent
        assert http.post(f"{server.url}/api/predict", content=pieces()).status_code == 413
    assert not list((server.folder / "uploads").iterdir())
    check_serving(server)


LABELS = (
    "wave",
    "Größe 手 ✋",
    "../x",
    "..",
    ".",
    "a/b",
    "C:\\x",
    "con",
    "x" * 500,
    " ",
    "\0",
    "%2e%2e",
    "a\nb",
    "🙂" * 30,
)


@pytest.mark.parametrize("label", LABELS)
def test_recordings_stay_in_their_folder(server: Running, label: str) -> None:
    before = {p for p in server.folder.parent.rglob("*") if server.folder not in (p, *p.parents)}
    url = f"{server.url}/api/recordings/{quote(label, safe='')}"
    response = http.post(url, content=recording())
    assert response.status_code in (201, 404, 405, 422), response.text
    assert {p for p in server.folder.parent.rglob("*") if server.folder not in (p, *p.parents)} == before
    if response.status_code == 201:
        stored = response.json()
        listed = {one["label"]: one["clips"] for one in http.get(f"{server.url}/api/recordings").json()["labels"]}
        assert [clip["id"] for clip in listed[stored["label"]]] == [stored["id"]]
        assert stored["frames"] == 8
        assert http.delete(f"{url}/none").status_code == 404
        assert http.delete(f"{url}/{stored['id']}").json() == {"removed": 1}
        assert http.delete(url).status_code == 404


def test_invalid_recordings(server: Running) -> None:
    url = f"{server.url}/api/recordings/wave"
    good = recording()
    for body in (b"", b"abc", good[:-5], (2**32 - 1).to_bytes(4, "little") + good, b"\0\0\0\0" * 9):
        response = http.post(url, content=body)
        assert response.status_code == 422, body[:20]
    assert http.post(url, content=bytes(300_000)).status_code == 413
    assert http.get(f"{server.url}/api/recordings").json() == {"labels": []}


def test_finetuning_needs_clips(server: Running) -> None:
    assert http.get(f"{server.url}/api/teach").json()["state"] == "idle"
    for expected in (
        {},
        {"name": "../x"},
        {"name": "mine", "overwrite": "yes"},
        {"minutes": 1},
        {"how": "frozen"},
        {"who": 1},
    ):
        assert http.post(f"{server.url}/api/teach", json=expected).status_code == 422, expected
    assert http.delete(f"{server.url}/api/teach").json()["state"] == "idle"


def test_samples(server: Running) -> None:
    listed = http.get(f"{server.url}/api/samples").json()
    assert len(listed) >= 3
    url = f"{server.url}/api/samples/{listed[0]['name']}.mp4"
    whole = http.get(url, timeout=60)
    assert whole.headers["content-type"] == "video/mp4"
    part = http.get(url, headers={"Range": "bytes=0-99"})
    assert part.status_code == 206
    assert part.content == whole.content[:100]
    assert http.get(f"{server.url}/api/samples/..%2f..%2fx.mp4").status_code == 404


def test_docs_and_metrics(server: Running) -> None:
    docs = http.get(f"{server.url}/docs").text
    assert "/api/predict" in docs
    assert '"type": "busy"' in docs
    assert re.findall("<script[^>]*>", docs) == ['<script type="module" src="copy.js">']
    text = metrics(server)
    for name in ("streams", "frames_total", "latency_seconds_bucket", "busy_total", "memory_bytes", "uptime_seconds"):
        assert f"horst_{name}" in text
    assert http.get(f"{server.url}/none").json()["error"]["code"] == "missing"
    assert http.put(f"{server.url}/api/info").json()["error"]["code"] == "method"


def test_random_requests(server: Running) -> None:
    """Schemathesis generates them from the OpenAPI description: no internal errors, and documented responses."""
    import schemathesis  # takes a second, which only the process of this test should spend

    schema = schemathesis.openapi.from_url(f"{server.url}/openapi.json")
    checks = [
        schemathesis.checks.not_a_server_error,
        schemathesis.checks.response_schema_conformance,
        schemathesis.checks.content_type_conformance,
    ]
    for found in schema.get_all_operations():

        @settings(max_examples=8, deadline=None, database=None, suppress_health_check=list(HealthCheck))
        @given(case=found.ok().as_strategy())
        def attempt(case: schemathesis.Case) -> None:
            case.call_and_validate(checks=checks)

        attempt()
    check_serving(server)
    assert "horst_failures_total 0\n" in metrics(server)
