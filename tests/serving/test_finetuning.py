"""Record clips, finetune a model on them, and use it, over the network."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import ValidationError
from servers import frame, receive, recording, running

from horst.finetune import NOTHING
from horst.serving.teach import FinetuneRequest


def test_finetune_request() -> None:
    assert FinetuneRequest().model_dump() == {"name": "mine", "overwrite": False}
    good_and_bad = (
        ("name", ("x", "x" * 100), ("", "x" * 101)),
        ("overwrite", (True, False), (1, "true", None)),
    )
    for name, good, bad in good_and_bad:
        for value in good:
            assert getattr(FinetuneRequest(**{name: value}), name) == value
        for value in bad:
            with pytest.raises(ValidationError, match=name):
                FinetuneRequest(**{name: value})


def wait_for_model(http: httpx.Client) -> dict[str, Any]:
    end = time.monotonic() + 120
    while (state := http.get("/api/teach").json())["state"] == "running":
        assert 0 <= state["progress"] <= 1
        assert time.monotonic() < end
        time.sleep(0.2)
    return state


@pytest.mark.usefixtures("eager_finetuning")
def test_finetune_and_use_a_model(tmp_path: Path) -> None:
    with running(tmp_path) as server, httpx.Client(base_url=server.url, timeout=60) as http:
        for label in ("wave", "Größe ✋"):
            for clip in range(3):
                stored = http.post(f"/api/recordings/{label}", content=recording(10 + clip))
                assert stored.status_code == 201, stored.text
                assert stored.json()["label"] == label
        listed = http.get("/api/recordings").json()["labels"]
        assert {one["label"]: len(one["clips"]) for one in listed} == {"wave": 3, "Größe ✋": 3}
        started = http.post("/api/teach", json={"name": "mine"})
        assert started.status_code == 202, started.text
        assert started.json()["state"] == "running"
        again = http.post("/api/teach", json={"name": "other"})
        assert again.status_code == 409
        assert again.json()["error"]["code"] == "running"
        state = wait_for_model(http)
        assert (state["state"], state["model"]) == ("done", "mine"), state
        assert {(one["label"], one["clips"]) for one in state["labels"]} == {("wave", 3), ("Größe ✋", 3)}
        assert all(one["correct"] + sum(one["confused"].values()) == one["clips"] for one in state["labels"])
        assert all(isinstance(sentence, str) for sentence in state["advice"])
        assert [model["name"] for model in http.get("/api/models").json() if model["finetuned"]] == ["mine"]
        with server.socket({"model": "mine"}) as client:
            client.send(frame(0, 0.0))
            top = receive(client)["prediction"]["top"]["action"]
            assert {one["name"] for one in top} == {"wave", "Größe ✋", NOTHING}
        exists = http.post("/api/teach", json={"name": "mine"})
        assert (exists.status_code, exists.json()["error"]["code"]) == (409, "exists")
        assert str(tmp_path) not in exists.text
        replaced = http.post("/api/teach", json={"name": "mine", "overwrite": True})
        assert replaced.status_code == 202
        http.delete("/api/teach")
        assert wait_for_model(http)["state"] == "cancelled"
