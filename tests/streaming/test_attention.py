"""Attention of a live stream equals that of the whole clip, and has the times of its frames."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import numpy as np
import pytest
import torch
import videos

import horst
from horst.models import Predictor
from horst.streaming import PeriodicReset, SessionPool

FPS, ORDER = 5.0, 3
ROOT = Path(__file__).parents[2]


def small(backend: str = "auto") -> Predictor:
    torch.manual_seed(0)
    options = {"backbone": {"name": "stem", "widths": [4, 6]}, "hidden": [6, 8], "stride": [2, 1], "order": ORDER}
    model = horst.create_model("horst_tiny", num_classes=4, size=(24, 32), fps=FPS, **options).eval()
    model.core.use_backend(backend)  # type: ignore[arg-type]
    return model


IMAGES = [videos.picture(7 * i % 50, 24, 32) for i in range(7)]


def clip_attention(model: Predictor, images: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """(T, S) and (T, S, h, w) of the last layer."""
    with torch.inference_mode():
        out, _ = model(torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2)[None], attention=True)
    assert out.core.temporal is not None
    assert out.core.spatial is not None
    return out.core.temporal[-1][0].numpy(), out.core.spatial[-1][0].numpy()


def test_streaming_attention_equals_the_whole_clip() -> None:
    model = small()
    stream = model.stream(attention=True)
    temporal, spatial = clip_attention(model, IMAGES)
    for i, image in enumerate(IMAGES):
        (prediction,) = stream.feed(image, 10 + i / FPS)
        found = prediction.attention
        assert found is not None
        np.testing.assert_allclose(found.temporal, temporal[i], atol=1e-5)
        np.testing.assert_allclose(found.spatial, spatial[i], atol=1e-5)
        assert found.temporal.sum() == pytest.approx(1, abs=1e-5)
        past = [10 + j / FPS if j >= 0 else np.nan for j in range(i - ORDER, i)]
        np.testing.assert_allclose(found.times, past)
    stream.reset()  # the times are forgotten too
    (first,) = stream.feed(IMAGES[0], 50.0)
    assert first.attention is not None
    assert np.isnan(first.attention.times).all()


def test_times_are_those_of_the_state_that_answers() -> None:
    stream = small().stream(reset=PeriodicReset(seconds=0.8, states=2), attention=True)
    for i in range(12):
        (prediction,) = stream.feed(IMAGES[i % 7], i / FPS)
        assert prediction.attention is not None
        times = prediction.attention.times
        known = times[~np.isnan(times)]
        assert len(known) == min(ORDER, prediction.age - 1)
        np.testing.assert_allclose(known, prediction.time - np.arange(len(known), 0, -1) / FPS)


def test_attention_is_optional_for_each_stream() -> None:
    pool = SessionPool(small(), capacity=3)
    without, asking, late = pool.open(), pool.open(attention=True), pool.open(attention=True)
    for i, image in enumerate(IMAGES):
        without.push(image, i / FPS)
        asking.push(image, i / FPS)
        if i > 3:
            late.push(image, i / FPS)
        predictions = dict(pool.step())
        assert predictions[without].attention is None
        assert predictions[asking].attention is not None
        probabilities = [predictions[slot].probabilities["action"] for slot in (without, asking)]
        np.testing.assert_allclose(*probabilities, atol=1e-6)
    temporal, _ = clip_attention(pool.model, IMAGES[4:])
    assert late.latest is not None
    assert late.latest.attention is not None
    np.testing.assert_allclose(late.latest.attention.temporal, temporal[-1], atol=1e-5)


def test_attention_as_json() -> None:
    stream = small().stream(attention=True)
    prediction = [p for i, image in enumerate(IMAGES[:3]) for p in stream.feed(image, i / FPS)][-1]
    assert prediction.attention is not None
    data = json.loads(json.dumps(prediction.to_dict()))["attention"]
    assert data["times"] == [None, 0.0, 0.2]
    assert sum(data["temporal"]) == pytest.approx(1, abs=1e-3)
    maps = np.frombuffer(base64.b64decode(data["spatial"]), np.uint8).reshape(data["shape"])
    np.testing.assert_allclose(maps / 255, prediction.attention.spatial, atol=0.5 / 255 + 1e-6)
    assert not maps[0].any()  # there was no frame yet
    assert "attention" not in small().stream().push(IMAGES[0], 0.0).to_dict()  # type: ignore[union-attr]


def test_attention_comes_from_the_fused_kernels() -> None:
    """They give the weights of streams that ask for them, and go on with all streams."""
    pool = SessionPool(small("triton"), capacity=2)
    first = pool.open()
    kinds = []
    for i, image in enumerate(IMAGES[:5]):
        if i == 2:
            second = pool.open(attention=True)
        first.push(image, i / FPS)
        if i > 2:
            second.push(image, i / FPS)
        pool.step()
        kinds.append(type(pool.batched_step._runner).__name__)
    assert kinds == ["_FusedStep"] * 5
    whole = small().stream()
    for i, image in enumerate(IMAGES[:5]):
        prediction = whole.push(image, i / FPS)
    assert first.latest is not None
    assert second.latest is not None
    np.testing.assert_allclose(first.latest.probabilities["action"], prediction.probabilities["action"], atol=2e-2)
    temporal, _ = clip_attention(small(), IMAGES[3:5])
    assert second.latest.attention is not None
    np.testing.assert_allclose(second.latest.attention.temporal, temporal[-1], atol=1e-4)
