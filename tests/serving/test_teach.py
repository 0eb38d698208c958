"""Record, teach and use a model over the network."""

from __future__ import annotations

import time
from pathlib import Path

import httpx
import pytest
from pydantic import ValidationError
from servers import frame, hear, recording, running

from horst.serving.teach import TeachRequest


def test_what_may_be_asked_for() -> None:
    assert TeachRequest().model_dump() == {"name": "mine", "how": "frozen", "minutes": 1.0}
    for name, good, bad in (("minutes", (0.01, 60), (0, -1, 60.01, "5")), ("name", ("x", "x" * 100), ("", "x" * 101))):
        for value in good:
            assert getattr(TeachRequest(**{name: value}), name) == value
        for value in bad:
            with pytest.raises(ValidationError, match=name):
                TeachRequest(**{name: value})


def test_a_model_is_taught_and_used(tmp_path: Path) -> None:
    with running(tmp_path) as server, httpx.Client(base_url=server.url, timeout=60) as http:
        for label in ("wave", "Größe ✋"):
            for clip in range(3):
                kept = http.post(f"/api/recordings/{label}", content=recording(10 + clip))
                assert kept.status_code == 201, kept.text
                assert kept.json()["label"] == label
        listed = http.get("/api/recordings").json()["labels"]
        assert {one["label"]: len(one["clips"]) for one in listed} == {"wave": 3, "Größe ✋": 3}
        begun = http.post("/api/teach", json={"name": "mine", "how": "frozen", "minutes": 0.05})
        assert begun.status_code == 202, begun.text
        assert begun.json()["state"] == "running"
        again = http.post("/api/teach", json={"name": "other"})
        assert again.status_code == 409
        assert again.json()["error"]["code"] == "running"
        end = time.monotonic() + 120
        while (state := http.get("/api/teach").json())["state"] == "running":
            assert 0 <= state["progress"] <= 1
            assert time.monotonic() < end
            time.sleep(0.2)
        assert (state["state"], state["model"]) == ("done", "mine"), state
        assert [model["name"] for model in http.get("/api/models").json() if model["taught"]] == ["mine"]
        with server.socket({"model": "mine"}) as client:
            client.send(frame(0, 0.0))
            top = hear(client)["prediction"]["top"]["action"]
            assert {one["name"] for one in top} == {"wave", "Größe ✋"}
        http.post("/api/teach", json={"name": "mine", "how": "scratch", "minutes": 5})
        http.delete("/api/teach")
        while (state := http.get("/api/teach").json())["state"] == "running":
            assert time.monotonic() < end
            time.sleep(0.1)
        assert state["state"] == "cancelled"
