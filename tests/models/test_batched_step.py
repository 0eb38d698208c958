"""A batched step gives what each stream gives alone, at any age, in plain PyTorch and with the kernels."""

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
    "order": 2,
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


def alone(model: Predictor, frames: torch.Tensor) -> torch.Tensor:
    """The model itself, one stream: frames (T, 3, H, W) -> (T, classes)."""
    with torch.inference_mode():
        return model(frames.unsqueeze(0))[0].logits.action[0]


@pytest.mark.parametrize("variant", ["released", "paper"])
def test_streams_of_any_age(variant: str) -> None:
    check(horst.BatchedStep(small(variant), 3), small(variant))


def test_a_core_with_other_kernels_runs_eagerly() -> None:
    torch.manual_seed(0)
    model = horst.create_model("conv_lstm_tiny", num_classes=4, size=(24, 20), hidden=[4], stride=[1]).eval()
    plain = torch.stack([alone(model, clip(3, 2)[:, i]) for i in range(2)], 1)
    model.to("cuda" if torch.cuda.is_available() else "cpu").core.use_backend("triton")
    step = horst.BatchedStep(model, 2)
    found = torch.stack([step(now).logits.action.cpu() for now in clip(3, 2)])
    torch.testing.assert_close(found, plain, rtol=1e-4, atol=1e-5)


def check(step: horst.BatchedStep, model: Predictor) -> None:
    """Stream 0 gets every frame, 1 every other, 2 is reset on the way: each gives what it gives alone."""
    frames = clip(5, 3)
    found: dict[int, list[torch.Tensor]] = {0: [], 1: [], 2: []}
    for t, now in enumerate(frames):
        if t == 3:
            step.reset(2)
            found[2] = []
        active = [0, 2] if t % 2 else None
        logits = step(now, active).logits
        for slot in [0, 2] if t % 2 else [0, 1, 2]:
            found[slot].append(logits.action[slot].cpu())
    limit = {"rtol": 1e-4, "atol": 1e-5}
    torch.testing.assert_close(torch.stack(found[0]), alone(model, frames[:, 0]), **limit)
    torch.testing.assert_close(torch.stack(found[1]), alone(model, frames[::2, 1]), **limit)
    torch.testing.assert_close(torch.stack(found[2]), alone(model, frames[3:, 2]), **limit)
    assert step.frame_counts == [5, 3, 2]
    with torch.inference_mode():  # the state is one that the model itself goes on from
        state = step.state
        after, _ = model.step(frames[0], state.map(torch.Tensor.cpu))
        again = step(frames[0]).logits
    torch.testing.assert_close(again.action.cpu(), after.logits.action, **limit)
    step.reset()
    assert step.frame_counts == [0, 0, 0]


calls = st.lists(
    st.one_of(
        st.just(("all", [])),
        st.tuples(st.just("some"), st.lists(st.integers(0, 2), min_size=1, max_size=3)),
        st.tuples(st.just("reset"), st.lists(st.integers(0, 2), max_size=1)),
    ),
    min_size=1,
    max_size=8,
)


@settings(max_examples=15, deadline=None)
@given(calls=calls, again=st.booleans())
def test_a_returned_state_is_a_copy(calls: list[tuple[str, list[int]]], again: bool) -> None:
    """Later steps do not change it, and changing it does not change the step."""
    model = small()
    step, twin = horst.BatchedStep(model, 3), horst.BatchedStep(model, 3)
    kept = []
    for frame, (kind, slots) in zip(clip(8, 3), calls, strict=False):
        for one in (step, twin):
            if kind == "reset":
                one.reset(slots[0] if slots else None)
            else:
                one(frame, slots if kind == "some" else None)
        state = step.state
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
    found, wanted = (one(clip(1, 3)[0], active).logits.action for one in (step, twin))
    torch.testing.assert_close(found, wanted, rtol=0, atol=0, equal_nan=True)
    assert step.frame_counts == twin.frame_counts


def test_bad_calls_raise() -> None:
    model = small()
    with pytest.raises(InputError, match="at least 1"):
        horst.BatchedStep(model, 0)
    step = horst.BatchedStep(model, 2)
    with pytest.raises(InputError, match="this step takes"):
        step(clip(1, 3)[0])
    with pytest.raises(InputError, match="uint8"):
        step(clip(1, 2)[0].float())
    with pytest.raises(InputError, match="no slot 2"):
        step.reset(2)
    with pytest.raises(InputError, match="no slot -1"):
        step(clip(1, 2)[0], active=[-1])
    with pytest.raises(InputError, match="training mode"):
        horst.BatchedStep(model.train())


@pytest.mark.parametrize(
    ("variant", "options"),
    [
        ("released", {}),
        ("paper", {"hidden": [6], "stride": [2]}),
        ("released", {"hidden": [6], "stride": [1], "heads": 2, "attention": "spatial", "position": "sinusoidal"}),
    ],
)
def test_the_kernels_give_the_same(variant: str, options: dict[str, Any]) -> None:
    """On a GPU where there is one, else in Triton's interpreter (tests/conftest.py)."""
    model = small(variant, **options).to("cuda" if torch.cuda.is_available() else "cpu")
    model.core.use_backend("triton")
    step = horst.BatchedStep(model, 3, precision=torch.float32)
    assert type(step._runner).__name__ == "_FusedStep"
    check(step, small(variant, **options))


def test_the_kernels_run_in_half_precision() -> None:
    """In float16, because Triton's interpreter computes bfloat16 incorrectly."""
    options = {"hidden": [4], "stride": [2]}
    model = small(**options).to("cuda" if torch.cuda.is_available() else "cpu")
    model.core.use_backend("triton")
    step, frames = horst.BatchedStep(model, 1, precision=torch.float16), clip(3, 1)
    found = torch.cat([step(now).logits.action.cpu() for now in frames])
    torch.testing.assert_close(found, alone(small(**options), frames[:, 0]), rtol=2e-2, atol=2e-2)


def test_slots_with_the_same_frame_share_the_backbone() -> None:
    """The states of a stream that is reset every few seconds differ in age only."""
    model = horst.create_model("horst_tiny", num_classes=4, size=(32, 32)).eval()
    shown = torch.randint(0, 256, (6, 4, 3, 32, 32), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    shown[:, 1] = shown[:, 3] = shown[:, 0]
    alone, shared = horst.BatchedStep(model, 4), horst.BatchedStep(model, 4)
    seen: list[int] = []
    handle = model.backbone.register_forward_pre_hook(lambda _, given: seen.append(len(given[0])))
    for number, frames in enumerate(shown):
        if number == 3:
            alone.reset(1)
            shared.reset(1)
        active = [3, 0, 1] if number % 2 else [0, 1, 2, 3]
        wanted = alone(frames, active).logits.action
        found = shared(frames, active, first=[2 if slot == 2 else active[0] for slot in active]).logits.action
        torch.testing.assert_close(found, wanted, equal_nan=True)
    handle.remove()
    assert seen == [4, 2, 3, 1] * 3
    with pytest.raises(InputError, match="first is"):
        shared(shown[0], [0, 1], first=[0, 2])


@pytest.mark.parametrize(
    ("variant", "options"),
    [
        ("released", {"hidden": [5], "stride": [2]}),
        ("paper", {"hidden": [6], "stride": [4], "heads": 3}),
        ("released", {"hidden": [4], "stride": [2], "attention": "temporal", "order": 3}),
    ],
)
def test_the_kernels_give_attention_weights(variant: str, options: dict[str, Any]) -> None:
    """Those of the model itself, oldest frame first, for streams of any age; NaN for streams without a frame."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    plain, model = horst.BatchedStep(small(variant, **options), 2), small(variant, **options).to(device)
    model.core.use_backend("triton")
    step = horst.BatchedStep(model, 2, precision=torch.float32)
    for t, now in enumerate(clip(6, 2)):
        if t == 4:
            step.reset(1)
            plain.reset(1)
        active = [1] if t in (1, 2) else None
        found, wanted = (one(now, active, attention=t != 3) for one in (step, plain))
        assert type(step._runner).__name__ == "_FusedStep"
        pairs = [(found.logits.action, wanted.logits.action)]
        if t != 3:
            pairs += [(found.spatial, wanted.spatial), (found.temporal, wanted.temporal)]
        for a, b in pairs:
            assert a is not None
            torch.testing.assert_close(a.cpu(), b, rtol=1e-4, atol=1e-5, equal_nan=True)
