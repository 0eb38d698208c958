"""Live streams: what a model says step by step, whatever their ages, by plain PyTorch and by the kernels."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import horst
from horst.errors import InputError
from horst.models import Predictor

SMALL = {
    "hidden": [6, 5],
    "stride": [1, 2],
    "order": 3,
}


def small(variant: str = "released", **options: Any) -> Predictor:
    """The released form on a stem whose norms the kernels know, the paper's on one whose norms they leave to torch."""
    torch.manual_seed(0)
    stem = {"name": "stem", "widths": [4, 6], "norm": "layer" if variant == "released" else "channel"}
    chosen = {**SMALL, **options}
    model = horst.create_model("horst_tiny", num_classes=4, variant=variant, size=(24, 20), backbone=stem, **chosen)
    for parameter in model.parameters():  # norms that do something
        torch.nn.init.uniform_(parameter, -0.5, 0.5)
    return model.eval()


def clip(frames: int, count: int) -> torch.Tensor:
    return torch.randint(
        0, 256, (frames, count, 3, 24, 20), dtype=torch.uint8, generator=torch.Generator().manual_seed(1)
    )


def told(model: Predictor, frames: torch.Tensor) -> torch.Tensor:
    """By the model itself, each stream alone: frames (T, 3, H, W) -> (T, classes)."""
    with torch.inference_mode():
        return model(frames.unsqueeze(0))[0].logits.action[0]


@pytest.mark.parametrize("variant", ["released", "paper"])
def test_streams_of_any_age(variant: str) -> None:
    check(horst.Streams(small(variant), 3), small(variant))


def test_a_core_with_other_kernels_runs_as_it_is() -> None:
    torch.manual_seed(0)
    model = horst.create_model("conv_lstm_tiny", num_classes=4, size=(24, 20), hidden=[4], stride=[1]).eval()
    plain = torch.stack([told(model, clip(3, 2)[:, i]) for i in range(2)], 1)
    model.core.use_backend("triton")
    streams = horst.Streams(model, 2)
    torch.testing.assert_close(torch.stack([streams(now).action for now in clip(3, 2)]), plain, rtol=1e-4, atol=1e-5)


def check(streams: horst.Streams, model: Predictor) -> None:
    """Stream 0 gets every frame, 1 every other, 2 starts afresh on the way: each says what it would say alone."""
    frames = clip(6, 3)
    said: dict[int, list[torch.Tensor]] = {0: [], 1: [], 2: []}
    for t, now in enumerate(frames):
        if t == 3:
            streams.reset(2)
            said[2] = []
        active = [0, 2] if t % 2 else None
        logits = streams(now, active)
        for place in [0, 2] if t % 2 else [0, 1, 2]:
            said[place].append(logits.action[place].cpu())
    limit = {"rtol": 1e-4, "atol": 1e-5}
    torch.testing.assert_close(torch.stack(said[0]), told(model, frames[:, 0]), **limit)
    torch.testing.assert_close(torch.stack(said[1]), told(model, frames[::2, 1]), **limit)
    torch.testing.assert_close(torch.stack(said[2]), told(model, frames[3:, 2]), **limit)
    assert streams.ages == [6, 3, 3]
    with torch.inference_mode():  # the state is one that the model itself goes on from
        state = streams.state
        after, _ = model.step(frames[0], state.map(torch.Tensor.cpu))
        again = streams(frames[0])
    torch.testing.assert_close(again.action.cpu(), after.logits.action, **limit)
    streams.reset()
    assert streams.ages == [0, 0, 0]


calls = st.lists(
    st.one_of(
        st.just(("all", [])),
        st.tuples(st.just("some"), st.lists(st.integers(0, 2), min_size=1, max_size=3)),
        st.tuples(st.just("reset"), st.lists(st.integers(0, 2), max_size=1)),
    ),
    min_size=1,
    max_size=8,
)


@settings(max_examples=25, deadline=None)
@given(calls=calls, again=st.booleans())
def test_a_state_that_was_handed_out_stays_as_it_was(calls: list[tuple[str, list[int]]], again: bool) -> None:
    """Whatever the streams do later; nor does what its owner does to it reach them."""
    streams, twin = horst.Streams(small(), 3), horst.Streams(small(), 3)
    kept = []
    for frame, (kind, places) in zip(clip(8, 3), calls, strict=False):
        for one in (streams, twin):
            if kind == "reset":
                one.reset(places[0] if places else None)
            else:
                one(frame, places if kind == "some" else None)
        state = streams.state
        kept.append((state, state.map(torch.Tensor.clone)))
    for state, copy in kept:
        for layer, other in zip(state.layers, copy.layers, strict=True):
            assert torch.equal(layer.keys, other.keys)
            assert torch.equal(layer.filters, other.filters)
            assert torch.equal(layer.values, other.values)
            assert torch.equal(layer.count, other.count)
    with torch.inference_mode():
        kept[-1][0].map(torch.Tensor.zero_)
    active = [0, 2] if again else None
    said, wanted = (one(clip(1, 3)[0], active).action for one in (streams, twin))
    torch.testing.assert_close(said, wanted, rtol=0, atol=0, equal_nan=True)
    assert streams.ages == twin.ages


def test_bad_calls_are_told() -> None:
    model = small()
    with pytest.raises(InputError, match="at least one stream"):
        horst.Streams(model, 0)
    streams = horst.Streams(model, 2)
    with pytest.raises(InputError, match="these streams take"):
        streams(clip(1, 3)[0])
    with pytest.raises(InputError, match="uint8"):
        streams(clip(1, 2)[0].float())
    with pytest.raises(InputError, match="no stream 2"):
        streams.reset(2)
    with pytest.raises(InputError, match="no stream -1"):
        streams(clip(1, 2)[0], active=[-1])
    with pytest.raises(InputError, match="training mode"):
        horst.Streams(model.train())


@pytest.mark.parametrize(
    ("variant", "options"),
    [
        ("released", {}),
        ("paper", {}),
        ("released", {"hidden": [6], "stride": [1], "heads": 2, "attention": "spatial", "position": "sinusoidal"}),
    ],
)
def test_the_kernels_say_the_same(variant: str, options: dict[str, Any]) -> None:
    """On a GPU where there is one, else in Triton's interpreter (tests/conftest.py)."""
    model = small(variant, **options).to("cuda" if torch.cuda.is_available() else "cpu")
    model.core.use_backend("triton")
    streams = horst.Streams(model, 3, precision=torch.float32)
    assert type(streams._engine).__name__ == "_Kernels"
    check(streams, small(variant, **options))
