"""onnxruntime runs a step as the model itself does, from graphs that need no export for other weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import horst
from horst.errors import ConfigError, ExportError
from horst.export import engine as module
from horst.export.engine import graph_path, open_engine, write_graphs
from horst.export.stages import graph, stages
from horst.finetune.run import MOTION_POOL, open_base
from horst.models import Predictor
from horst.streaming import SessionPool
from horst.streaming.reset import PeriodicReset

SIZE = (24, 20)
ONE_LAYER: dict[str, Any] = {
    "hidden": [6],
    "stride": [2],
    "position": "sinusoidal",
    "heads": 2,
    "key_value": "split",
}
"""A form whose graphs are written in half the time, also by two tests."""
pytestmark = pytest.mark.slow


def small(seed: int = 0, **options: Any) -> Predictor:
    torch.manual_seed(seed)
    chosen = {"hidden": [6, 4], "stride": [1, 2], "order": 2, "backbone": {"name": "stem", "widths": [4, 6]}, **options}
    model = horst.create_model("horst_tiny", num_classes=4, size=SIZE, **chosen)
    for parameter in model.parameters():  # norms that do something
        torch.nn.init.uniform_(parameter, -0.5, 0.5)
    return model.eval()


def frames(count: int, streams: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randint(256, (count, streams, 3, *SIZE), generator=generator).to(torch.uint8)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With the graphs of `small()`."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HORST_CACHE", str(folder))
        write_graphs(small())
    return folder


@pytest.fixture(autouse=True)
def environment(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HORST_CACHE", str(cache))
    monkeypatch.setenv("HORST_ENGINE", "auto")


def steps(step: horst.BatchedStep, clip: torch.Tensor) -> torch.Tensor:
    """Stream 1 misses a frame, stream 2 is reset on the way."""
    found = []
    for t, now in enumerate(clip):
        if t == 3:
            step.reset(2)
        found.append(step(now, [0, 2] if t == 2 else None).logits.action)
    return torch.stack(found)


def assert_equal(a: horst.BatchedStep, b: horst.BatchedStep, clip: torch.Tensor) -> None:
    torch.testing.assert_close(steps(a, clip), steps(b, clip), rtol=1e-4, atol=1e-5, equal_nan=True)
    assert a.frame_counts == b.frame_counts
    for (name, x), (_, y) in zip(a.state.tensors(), b.state.tensors(), strict=True):
        torch.testing.assert_close(x, y, rtol=1e-4, atol=1e-5, msg=name)


@pytest.mark.parametrize("seed", [0, 1])
def test_gives_what_torch_gives_with_any_weights(seed: int) -> None:
    model = small(seed)
    fast = horst.BatchedStep(model, 3)
    assert fast.engine == "onnxruntime"
    assert_equal(fast, horst.BatchedStep(model, 3, engine="torch"), frames(6, 3))


@pytest.mark.parametrize(
    "options",
    [
        {"variant": "released"},
        {"position": "sinusoidal", "heads": 2, "key_value": "split"},
        {"attention": "spatial", "spatial_weight": "order"},
        {"attention": "temporal", "heads": 2},
        {"attention": "joint"},
    ],
    ids=str,
)
def test_the_stages_of_every_form(options: dict[str, Any]) -> None:
    """The graphs are exports of these modules."""
    model = small(**options)
    parts = stages(model)
    with torch.inference_mode():
        state = model.init_state(2, *SIZE)
        for now in frames(5, 2):
            found = parts["advance"](list(parts["observe"](now)), [tensor for _, tensor in state.tensors()])
            out, state = model.step(now, state)
            torch.testing.assert_close(found[0], out.logits.action, rtol=1e-4, atol=1e-5)


def test_position_and_heads_as_a_graph() -> None:
    model = small(**ONE_LAYER)
    step = horst.BatchedStep(model, 3, engine="onnxruntime")
    assert_equal(step, horst.BatchedStep(model, 3, engine="torch"), frames(6, 3))


def test_another_core_gets_its_maps_from_onnxruntime(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    model = horst.create_model("conv_lstm_tiny", num_classes=4, size=SIZE, hidden=[4], stride=[1]).eval()
    step = horst.BatchedStep(model, 3, engine="onnxruntime")
    assert_equal(step, horst.BatchedStep(model, 3, engine="torch"), frames(6, 3))
    monkeypatch.setattr(type(model.backbone), "forward", None)  # torch does not run it
    step(frames(1, 3)[0])


@pytest.mark.parametrize("name", ["kitchen", "somethings", MOTION_POOL])
def test_the_package_has_graphs_that_are_current(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If not: python -m tools.export_graphs. An engine is compared with its model when it is opened."""
    monkeypatch.setenv("HORST_CACHE", str(tmp_path))
    model = open_base(name).eval()
    open_engine(model)
    assert not list(tmp_path.iterdir())


def test_attention_weights_come_from_torch_and_the_stream_goes_on() -> None:
    model, clip = small(), frames(4, 2)
    fast, plain = horst.BatchedStep(model, 2), horst.BatchedStep(model, 2, engine="torch")
    for t, now in enumerate(clip):
        a, b = (step(now, attention=t == 2) for step in (fast, plain))
        torch.testing.assert_close(a.logits.action, b.logits.action, rtol=1e-4, atol=1e-5)
        assert (a.spatial is not None) == (t == 2)


def test_states_with_the_same_frame_share_the_first_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    observe = module.Engine.observe
    monkeypatch.setattr(module.Engine, "observe", lambda self, x: seen.append(len(x)) or observe(self, x))
    pool = SessionPool(small(), 6)
    seen.clear()
    for slot in [pool.open(PeriodicReset(1.0, states=3)) for _ in range(2)]:
        slot.push(torch.zeros(*SIZE, 3, dtype=torch.uint8).numpy(), 0.0)
    assert len(pool.step()) == 2
    assert seen == [2]


def test_a_graph_of_another_version_is_written_again_or_not_used() -> None:
    model, other = small(**ONE_LAYER), small(**ONE_LAYER, order=3)
    write_graphs(model)
    path = graph_path(model, "advance")
    good = path.read_bytes()
    try:
        path.write_bytes(graph(other, "advance"))  # takes other states
        with pytest.raises(ExportError, match="onnxruntime"):
            open_engine(model)
        path.write_bytes(b"damaged")
        step = horst.BatchedStep(model, 2)
        assert step.engine == "torch"
        assert horst.BatchedStep(model, 2, export=True).engine == "onnxruntime"
    finally:
        path.write_bytes(good)


@pytest.mark.parametrize("wrong", [1.0, float("nan")])
def test_an_engine_that_differs_is_not_used(wrong: float, monkeypatch: pytest.MonkeyPatch) -> None:
    advance = module.Engine.advance

    def differ(self: Any, observed: Any, state: Any) -> Any:
        logits, written = advance(self, observed, state)
        if state[3].any():  # not at the first frame
            logits["action"] = logits["action"] + wrong
        return logits, written

    monkeypatch.setattr(module.Engine, "advance", differ)
    with pytest.raises(ExportError, match="differ"):
        open_engine(small())


def test_a_stream_with_attention_opens_no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "open_engine", None)
    assert small().stream(attention=True).pool.batched_step.engine == "torch"


def test_without_graphs_torch_runs_and_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HORST_CACHE", str(tmp_path))
    step = horst.BatchedStep(small())
    assert step.engine == "torch"
    assert "no graphs" in step.why
    with pytest.raises(ExportError, match="no graphs"):
        open_engine(small())


def test_the_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    assert horst.BatchedStep(small(), engine="torch").why == "requested"
    monkeypatch.setenv("HORST_ENGINE", "torch")
    assert horst.BatchedStep(small()).why == "set by HORST_ENGINE"
    assert horst.BatchedStep(small(), engine="onnxruntime").engine == "onnxruntime"
    with pytest.raises(ConfigError, match="fp32"):
        horst.BatchedStep(small().double(), engine="onnxruntime")
    monkeypatch.setenv("HORST_ENGINE", "fast")
    with pytest.raises(ConfigError, match="fast"):
        horst.BatchedStep(small())
