"""How far ahead a prediction is: 0 s, within 2 s, or at several horizons."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
import videos

import horst
from horst.errors import InputError
from horst.models import Predictor

FPS = 4.0
SMALL = {"backbone": {"name": "stem", "widths": [4, 6]}, "hidden": [6], "stride": [2], "order": 3, "size": (24, 32)}
ACTIONS = {"num_classes": 7, "num_verbs": 3, "num_nouns": 4}
IMAGES = [videos.picture(i, 24, 32) for i in range(5)]


@pytest.fixture(scope="module")
def unrolling() -> Predictor:
    torch.manual_seed(0)
    return horst.create_model("horst_ek55_unroll", **ACTIONS, **SMALL, fps=FPS).eval()


def test_recognition_has_horizon_0() -> None:
    prediction = horst.create_model("horst_tiny", num_classes=4, **SMALL).eval().stream().push(IMAGES[0], 0.0)
    assert prediction is not None
    assert prediction.horizon == 0
    assert not prediction.horizons
    data = prediction.to_dict()
    assert data["horizon"] == 0
    assert "horizons" not in data


def test_head_without_unrolling_predicts_within_2_s() -> None:
    prediction = horst.open_model("kitchen").eval().stream().push(IMAGES[0], 0.0)
    assert prediction is not None
    assert prediction.horizon == 2
    assert not prediction.horizons
    assert prediction.top(3, horizon=2.0) == prediction.top(3)
    with pytest.raises(InputError, match=r"horizon is 1 s; this model predicts 2 s ahead"):
        prediction.top(horizon=1.0)


def test_unrolling_head_predicts_each_horizon(unrolling: Predictor) -> None:
    stream = unrolling.stream(attention=True)
    predictions = [p for i, image in enumerate(IMAGES) for p in stream.feed(image, i / FPS)]
    frames = torch.from_numpy(np.stack(IMAGES)).permute(0, 3, 1, 2)[None]
    for i, prediction in enumerate(predictions):
        assert list(prediction.horizons) == [2, 1.75, 1.5, 1.25, 1, 0.75, 0.5, 0.25]
        for seconds, probabilities in prediction.horizons.items():
            with torch.inference_mode():
                out, _ = unrolling(frames[:, : i + 1], unroll=round(seconds * FPS))
            for task in ("action", "verb", "noun"):
                np.testing.assert_allclose(probabilities[task], out.logits[task][0, -1].softmax(-1), atol=1e-5)
        assert prediction.horizon == 1
        np.testing.assert_array_equal(prediction.probabilities["action"], prediction.horizons[1.0]["action"])
        assert prediction.top(2, "verb", horizon=0.5)[0][1] == pytest.approx(prediction.horizons[0.5]["verb"].max())
        assert prediction.answer("noun", horizon=0.25) is not None
    data = json.loads(json.dumps(predictions[-1].to_dict(2)))
    assert data["horizon"] == 1
    assert [entry["seconds"] for entry in data["horizons"]] == list(predictions[-1].horizons)
    assert data["horizons"][4]["top"] == data["top"]
    with pytest.raises(InputError, match=r"horizon is 3 s; this model predicts 2, 1.75, "):
        predictions[-1].top(horizon=3)
