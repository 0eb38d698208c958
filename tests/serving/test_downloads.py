"""Downloads of finetuned models: the saved files, and ONNX that says what the model says."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest
import torch
from servers import SIZE, Running, http, running, tiny

import horst
from horst.errors import ExportError
from horst.export import open_graph
from horst.models import save
from horst.serving import downloads


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("served") / "folder") as server:
        save(server.model, server.folder / "models" / "mine")
        yield server


def test_saved_model(server: Running, tmp_path: Path) -> None:
    answer = http.get(f"{server.url}/api/models/mine/model.zip")
    assert answer.headers["content-type"] == "application/zip"
    assert answer.headers["content-disposition"] == 'attachment; filename="mine.zip"'
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        assert {entry.filename for entry in archive.infolist()} == {"config.json", "model.safetensors", "README.md"}
        assert {entry.compress_type for entry in archive.infolist()} == {zipfile.ZIP_STORED}
        archive.extractall(tmp_path / "mine")
    model = horst.open_model(tmp_path / "mine")
    frames = torch.randint(0, 255, (1, 3, 3, *SIZE), dtype=torch.uint8)
    torch.testing.assert_close(model(frames)[0].logits.action, server.model(frames)[0].logits.action)


@pytest.mark.parametrize("file", ["model.zip", "model.onnx"])
@pytest.mark.parametrize("name", ["tiny", "somethings", "none", "..", "%2e%2e", "..%2fmodels%2fmine"])
def test_only_models_that_were_finetuned_here(server: Running, name: str, file: str) -> None:
    assert http.get(f"{server.url}/api/models/{name}/{file}").status_code == 404


def test_missing_extra(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(module: str, extra: str) -> None:
        raise horst.errors.MissingExtraError(f"the package {module} is missing: pip install 'horst-video[{extra}]'")

    monkeypatch.setattr(downloads, "require", missing)
    answer = http.get(f"{server.url}/api/models/mine/model.onnx")
    assert (answer.status_code, answer.json()["error"]["code"]) == (501, "extra")
    assert "horst-video[export]" in answer.json()["error"]["message"]


@pytest.mark.slow
def test_onnx(server: Running, tmp_path: Path) -> None:
    address = f"{server.url}/api/models/mine/model.onnx"
    answer = httpx.get(address, timeout=300)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-disposition"] == 'attachment; filename="mine.onnx"'
    path = tmp_path / "mine.onnx"
    path.write_bytes(answer.content)
    graph = open_graph(path, "onnx")
    frames = np.random.default_rng(0).integers(0, 255, (1, 3, *SIZE), dtype=np.uint8)
    state = server.model.init_state(1, *SIZE)
    out, _ = server.model.step(torch.from_numpy(frames), state)
    found, _ = graph.step(frames, graph.start(1))
    np.testing.assert_allclose(found["action"], out.logits.action.detach(), atol=1e-4, rtol=1e-4)
    (cached,) = (server.folder / "exports").iterdir()
    written = cached.stat().st_mtime_ns
    assert httpx.get(address, timeout=30).content == answer.content
    assert cached.stat().st_mtime_ns == written
    save(tiny(3), server.folder / "models" / "mine", overwrite=True)
    (server.folder / "models" / "mine" / "model.safetensors").write_bytes(b"damaged")
    failed = httpx.get(address, timeout=300)
    assert failed.status_code == 422
    assert "cannot be exported" in failed.json()["error"]["message"]
    assert str(server.folder) not in failed.text
    assert [file.name for file in (server.folder / "exports").iterdir()] == [cached.name]
    save(server.model, server.folder / "models" / "mine", overwrite=True)


def test_export_that_takes_too_long(server: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import asyncio

    monkeypatch.setattr(downloads, "TIMEOUT", 0.1)
    with pytest.raises(ExportError, match=r"more than 0\.1 s"):
        asyncio.run(downloads._export(server.folder / "models" / "mine", tmp_path / "late.onnx"))
    assert not list(tmp_path.iterdir())
