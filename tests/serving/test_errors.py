"""Errors as clients see them: status, code, and when to retry."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from starlette.exceptions import HTTPException

from horst.errors import (
    BusyError,
    CheckpointError,
    ConfigError,
    DataError,
    ExistsError,
    HorstError,
    InputError,
    MissingExtraError,
    VideoError,
)
from horst.serving.errors import STATUSES, ApiError, ErrorResponse, hide_paths, install, responses
from horst.serving.metrics import Metrics


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
def client(metrics: Metrics) -> TestClient:
    app = FastAPI()
    install(app, metrics)
    raised: dict[str, Exception] = {
        "busy": BusyError("full"),
        "video": VideoError("clip.mp4", "it ends early"),
        "config": ConfigError("fps is 0"),
        "model": CheckpointError("no such model"),
        "exists": ExistsError("there is one"),
        "data": DataError("no such clip"),
        "input": InputError("threshold is 2"),
        "extra": MissingExtraError("onnx"),
        "other": HorstError("something else"),
        "api": ApiError(409, "one at a time"),
        "method": HTTPException(405, "use GET", {"Allow": "GET"}),
        "teapot": HTTPException(418, "no coffee"),
        "late": HTTPException(504, "it took too long"),
        "bug": ZeroDivisionError("secret"),
        "full": OSError(errno.ENOSPC, "No space left on device", "/srv/data/secret"),
        "closed": PermissionError(errno.EACCES, "Permission denied", "/srv/data/secret"),
    }

    @app.get("/raise/{name}")
    def fail(name: str, number: int = 0) -> None:
        raise raised[name]

    return TestClient(app, raise_server_exceptions=False)


@pytest.mark.parametrize(
    ("name", "status", "code"),
    [
        ("busy", 503, "busy"),
        ("video", 422, "video"),
        ("config", 422, "config"),
        ("model", 422, "model"),
        ("exists", 409, "exists"),
        ("data", 422, "data"),
        ("input", 422, "input"),
        ("extra", 501, "extra"),
        ("other", 422, "input"),
        ("api", 409, "running"),
        ("method", 405, "method"),
        ("teapot", 418, "request"),
        ("late", 504, "request"),
        ("bug", 500, "internal"),
        ("full", 507, "disk"),
        ("closed", 500, "internal"),
    ],
)
def test_status_and_code(client: TestClient, name: str, status: int, code: str) -> None:
    found = client.get(f"/raise/{name}")
    assert (found.status_code, found.json()["error"]["code"]) == (status, code)
    assert ErrorResponse.model_validate(found.json()).error.message
    assert ("Retry-After" in found.headers) == (status == 503)


def test_headers_and_messages(client: TestClient, metrics: Metrics) -> None:
    assert client.get("/raise/busy").headers["Retry-After"] == "5"
    assert client.get("/raise/method").headers["Allow"] == "GET"
    for count, name in enumerate(("bug", "full", "closed"), 1):
        assert "secret" not in client.get(f"/raise/{name}").text
        assert metrics.failures == count
    wrong = client.get("/raise/data?number=x")
    assert wrong.status_code == 422
    assert wrong.json()["error"]["message"].startswith("query.number: ")
    missing = client.get("/nowhere")
    assert (missing.status_code, missing.json()["error"]["code"]) == (404, "missing")


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("/srv/a/x.bin cannot be written: '/srv/a/x.bin'", "x.bin cannot be written: 'x.bin'"),
        ("/my data/models/mine is damaged", "models/mine is damaged"),
        ("C:\\data\\live\\x.bin cannot be written", "x.bin cannot be written"),
        ('File "/usr/lib/python/os.py", line 3', 'File "os.py", line 3'),
        ("use GET /api/teach, image/jpeg or http://host:80/a/b", None),
        ("size is 5/3, see ../a/b, ~/.cache/horst and a/b", None),
    ],
)
def test_clients_do_not_see_paths(message: str, shown: str | None) -> None:
    assert hide_paths(message, Path("/my data")) == (message if shown is None else shown)


def test_documented_responses() -> None:
    assert list(responses()) == [400, 401, 403]
    assert list(responses(404, 503)) == [400, 401, 403, 404, 503]
    assert responses(413)[413] == {"model": ErrorResponse, "description": STATUSES[413][1]}
