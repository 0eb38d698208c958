"""Attention of a live stream: that of the whole clip, with the times of the frames that it looks at."""

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
from horst.streaming import Every, Pool

FPS, ORDER = 5.0, 3
ROOT = Path(__file__).parents[2]


def small(backend: str = "auto") -> Predictor:
    torch.manual_seed(0)
    options = {"backbone": {"name": "stem", "widths": [4, 6]}, "hidden": [6, 8], "stride": [2, 1], "order": ORDER}
    model = horst.create_model("horst_tiny", num_classes=4, size=(24, 32), fps=FPS, **options).eval()
    model.core.use_backend(backend)  # type: ignore[arg-type]
    return model


IMAGES = [videos.picture(7 * i % 50, 24, 32) for i in range(7)]


def of_the_clip(model: Predictor, images: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """(T, S) and (T, S, h, w) of the last layer."""
    with torch.inference_mode():
        out, _ = model(torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2)[None], attention=True)
    assert out.core.temporal is not None
    assert out.core.spatial is not None
    return out.core.temporal[-1][0].numpy(), out.core.spatial[-1][0].numpy()


def test_it_is_that_of_the_whole_clip() -> None:
    model = small()
    stream = model.stream(attention=True)
    temporal, spatial = of_the_clip(model, IMAGES)
    for i, image in enumerate(IMAGES):
        (prediction,) = stream.feed(image, 10 + i / FPS)
        found = prediction.attention
        assert found is not None
        np.testing.assert_allclose(found.temporal, temporal[i], atol=1e-5)
        np.testing.assert_allclose(found.spatial, spatial[i], atol=1e-5)
        assert found.temporal.sum() == pytest.approx(1, abs=1e-5)
        past = [10 + j / FPS if j >= 0 else np.nan for j in range(i - ORDER, i)]
        np.testing.assert_allclose(found.times, past)
    stream.reset()  # what was seen is forgotten, and its times too
    (first,) = stream.feed(IMAGES[0], 50.0)
    assert first.attention is not None
    assert np.isnan(first.attention.times).all()


def test_streams_that_start_afresh_by_themselves() -> None:
    """The times are those of the state that answers: the youngest has seen the least."""
    stream = small().stream(restarts=Every(seconds=0.8, of=2), attention=True)
    for i in range(12):
        (prediction,) = stream.feed(IMAGES[i % 7], i / FPS)
        assert prediction.attention is not None
        times = prediction.attention.times
        known = times[~np.isnan(times)]
        assert len(known) == min(ORDER, prediction.age - 1)
        np.testing.assert_allclose(known, prediction.time - np.arange(len(known), 0, -1) / FPS)


def test_who_does_not_ask_gets_none() -> None:
    pool = Pool(small(), capacity=3)
    plain, curious, late = pool.open(), pool.open(attention=True), pool.open(attention=True)
    for i, image in enumerate(IMAGES):
        plain.push(image, i / FPS)
        curious.push(image, i / FPS)
        if i > 3:
            late.push(image, i / FPS)
        said = dict(pool.step())
        assert said[plain].attention is None
        assert said[curious].attention is not None
        chances = [said[seat].probabilities["action"] for seat in (plain, curious)]
        np.testing.assert_allclose(*chances, atol=1e-6)
    temporal, _ = of_the_clip(pool.model, IMAGES[4:])
    assert late.latest is not None
    assert late.latest.attention is not None
    np.testing.assert_allclose(late.latest.attention.temporal, temporal[-1], atol=1e-5)


def test_plain_data() -> None:
    stream = small().stream(attention=True)
    prediction = [p for i, image in enumerate(IMAGES[:3]) for p in stream.feed(image, i / FPS)][-1]
    assert prediction.attention is not None
    told = json.loads(json.dumps(prediction.to_dict()))["attention"]
    assert told["times"] == [None, 0.0, 0.2]
    assert sum(told["temporal"]) == pytest.approx(1, abs=1e-3)
    maps = np.frombuffer(base64.b64decode(told["spatial"]), np.uint8).reshape(told["shape"])
    np.testing.assert_allclose(maps / 255, prediction.attention.spatial, atol=0.5 / 255 + 1e-6)
    assert not maps[0].any()  # there was no frame yet
    assert "attention" not in small().stream().push(IMAGES[0], 0.0).to_dict()  # type: ignore[union-attr]


def test_kernels_are_left_for_it() -> None:
    """What the streams remembered stays."""
    pool = Pool(small("triton"), capacity=2)
    first = pool.open()
    kinds = []
    for i, image in enumerate(IMAGES):
        if i == 4:
            second = pool.open(attention=True)
        first.push(image, i / FPS)
        if i > 4:
            second.push(image, i / FPS)
        pool.step()
        kinds.append(type(pool.streams._runner).__name__)
    assert kinds == ["_FusedStep"] * 5 + ["_EagerStep"] * 2
    whole = small().stream()
    for i, image in enumerate(IMAGES):
        said = whole.push(image, i / FPS)
    assert first.latest is not None
    assert second.latest is not None
    np.testing.assert_allclose(first.latest.probabilities["action"], said.probabilities["action"], atol=2e-2)
    temporal, _ = of_the_clip(small(), IMAGES[5:])
    assert second.latest.attention is not None
    np.testing.assert_allclose(second.latest.attention.temporal, temporal[-1], atol=1e-4)
