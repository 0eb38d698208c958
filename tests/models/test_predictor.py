"""Every model of the registry keeps the contract: clip == steps, prefix, lengths, unroll; no parameter is unused."""

from __future__ import annotations

from typing import Any

import pytest
import small_encoders
import torch
from torch import Tensor

from horst.errors import ConfigError, HorstError, InputError
from horst.heads import create_head
from horst.models import MODELS, Predictor, PredictorOutput, create_model, model_config

# The networks of the paper at their full width are for GPUs: the same models, narrow.
NARROW: dict[str, dict[str, Any]] = {
    "horst_ssv2": {"hidden": (8, 12, 8, 8), "backbone": {"name": "stem", "widths": [6, 8]}, "order": 3},
    "horst_ek55": {"hidden": (8, 8), "backbone": {"name": "maps", "channels": 12}, "order": 3},
    "horst_ek55_unroll": {"hidden": (8, 8), "backbone": {"name": "maps", "channels": 12}, "order": 3},
    "horst_ek100": {"hidden": (8, 8), "backbone": {"name": "maps", "channels": 12}, "order": 3},
    "horst_ek100_unroll": {"hidden": (8, 8), "backbone": {"name": "maps", "channels": 12}, "order": 3},
    "horst_ek100_vjepa2": {"hidden": (8, 8), "backbone": {"stride": 2, **small_encoders.VJEPA2}, "order": 3},
    "horst_tiny": {"order": 3},
    "horst_tiny_anticipation": {"order": 3},
    "horst_tiny_anticipation_unroll": {"order": 3},
}


def narrow(name: str, variant: str) -> Predictor:
    torch.manual_seed(0)
    size = {"size": (small_encoders.SIDE, small_encoders.SIDE)} if name.endswith("vjepa2") else {}
    return create_model(name, variant=variant, **NARROW[name], **size).double().eval()


def clip(model: Predictor, batch: int = 2, frames: int = 6) -> Tensor:
    torch.manual_seed(1)
    channels = model.backbone.input_channels
    if channels == 3:
        size = model.size if model.backbone.window > 1 else (33, 41)
        return torch.randint(0, 256, (batch, frames, 3, *size), dtype=torch.uint8)
    return torch.randn(batch, frames, channels, 5, 6).double()


def parts(out: PredictorOutput) -> list[Tensor]:
    return [*(out.logits[task] for task in out.logits), out.core.y]


def test_registry_is_covered() -> None:
    """HORST's; those of the other methods are in test_cores."""
    assert set(NARROW) == {name for name in MODELS if name.startswith("horst")}


@pytest.mark.parametrize("variant", ["paper", "released"])
@pytest.mark.parametrize("name", NARROW)
def test_clip_equals_steps_equals_prefix_then_steps(name: str, variant: str) -> None:
    model = narrow(name, variant)
    x = clip(model)
    horizons = [5, 3, 1, 2, 2, 7] if model.head.unrolls else None
    at = lambda t: {} if horizons is None else {"unroll": horizons[t]}  # noqa: E731
    whole, _ = model(x, **({} if horizons is None else {"unroll": horizons}))
    prefix, after = model(x[:, :2], **({} if horizons is None else {"unroll": horizons[:2]}))
    for start, state, done in ((0, model.init_state(2, *x.shape[-2:]), []), (2, after, [parts(prefix)])):
        steps = []
        for t in range(start, 6):
            out, state = model.step(x[:, t], state, **at(t))
            steps.append(parts(out))
        found = [torch.stack(column, 1) for column in zip(*steps, strict=True)]
        if done:
            found = [torch.cat(pair, 1) for pair in zip(done[0], found, strict=True)]
        torch.testing.assert_close(found, parts(whole), rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("name", NARROW)
def test_lengths(name: str) -> None:
    model = narrow(name, "paper")
    x = clip(model)
    together, _ = model(x, lengths=[6, 4])
    for b, length in enumerate((6, 4)):
        alone, _ = model(x[b : b + 1, :length])
        for ours, wanted in zip(parts(together), parts(alone), strict=True):
            torch.testing.assert_close(ours[b : b + 1, :length], wanted)


@pytest.mark.parametrize("variant", ["paper", "released"])
@pytest.mark.parametrize("name", NARROW)
def test_gradients_reach_every_parameter(name: str, variant: str) -> None:
    model = narrow(name, variant).train()
    out, _ = model(clip(model))
    sum(out.logits[task].square().sum() for task in out.logits).backward()
    assert [n for n, p in model.named_parameters() if p.requires_grad and (p.grad is None or not p.grad.any())] == []


@pytest.mark.parametrize("name", NARROW)
def test_the_head_reads_the_last_layer(name: str) -> None:
    model = narrow(name, "paper")
    out, _ = model(clip(model))
    given = {"y": out.core.y, "e": out.core.e[-1], "statt": out.core.statt[-1]}
    wanted = model.head(**{name: given[name] for name in model.head.reads})
    for task in wanted:
        assert torch.equal(out.logits[task], wanted[task])


def test_a_continued_clip_continues_its_horizons() -> None:
    model = narrow("horst_ek55_unroll", "paper")
    x = clip(model, frames=9)
    whole, _ = model(x)
    first, state = model(x[:, :4])
    second, state = model(x[:, 4:], state)
    torch.testing.assert_close(torch.cat([first.logits.noun, second.logits.noun], 1), whole.logits.noun)
    with pytest.raises(InputError, match="after 9 frames the time until the action is unknown"):
        model(x, state)
    with pytest.raises(InputError, match="pass unroll"):
        model.step(x[:, 0], state)


def test_bad_calls_change_nothing() -> None:
    """A backbone with statistics does not even see frames of a call that is refused."""
    model = create_model(
        "horst_tiny", backbone={"name": "efficientnet_lite0", "frozen": False}, hidden=(4,), stride=(1,)
    )
    before = {name: value.clone() for name, value in model.state_dict().items()}
    frames = torch.zeros(2, 3, 3, 32, 32)
    other = model.init_state(1, 32, 32)
    for refused in (
        lambda: model(frames, lengths=[9, 9]),
        lambda: model(frames, other),
        lambda: model(frames, unroll=3),
        lambda: model.step(frames[:, 0], other),
    ):
        with pytest.raises(HorstError):
            refused()
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


def test_models_are_the_papers() -> None:
    """Sizes that the paper states, without making the weights."""
    ssv2, ek55, ek100 = (model_config(n) for n in ("horst_ssv2", "horst_ek55", "horst_ek100_unroll"))
    assert (ssv2.core.hidden, ssv2.core.stride, ssv2.core.order) == ((128, 256, 512, 512), (1, 1, 2, 2), 8)
    assert (ssv2.core.in_channels, ssv2.size, ssv2.fps) == (128, (224, 224), 12.0)
    assert (ek55.core.in_channels, ek55.core.hidden, ek55.size) == (1024, (1024, 1024), (256, 454))
    assert ek55.head.options == {"num_classes": 2513, "num_verbs": 125, "num_nouns": 352}
    assert (ek100.core.hidden, ek100.head.name) == ((512, 512), "unrolling")
    assert ek100.head.options == {"num_classes": 3806, "num_verbs": 97, "num_nouns": 300}
    tiny = create_model("horst_tiny", size=(64, 96), fps=24.0)
    assert (tiny.config.size, tiny.config.fps) == ((64, 96), 24.0)
    assert create_model("horst_tiny", num_classes=5).head.classes == {"action": 5}


def test_variant_reaches_core_and_head() -> None:
    config = model_config("horst_ek55_unroll", variant="released")
    assert config.core.activation == "silu"
    assert config.head.options["form"] == "released"
    assert model_config("horst_ek55", variant="released", form="paper").head.options["form"] == "paper"


def test_precomputed_maps_replace_a_backbone() -> None:
    config = model_config("horst_ek55", backbone="maps")
    assert config.size == (8, 14)
    assert config.core.in_channels == 1024
    assert model_config("horst_ek55", backbone={"name": "maps", "channels": 64}).core.in_channels == 64


def test_interleaved_streams_on_one_model() -> None:
    model = narrow("horst_tiny", "paper")
    a, b = clip(model)[:1], clip(model)[1:]
    states = [model.init_state(1, 33, 41) for _ in range(2)]
    found: list[list[Tensor]] = [[], []]
    for t in range(6):
        for i, x in enumerate((a, b)):
            out, states[i] = model.step(x[:, t], states[i])
            found[i].append(out.logits.action)
    for logits, x in zip(found, (a, b), strict=True):
        torch.testing.assert_close(torch.stack(logits, 1), model(x)[0].logits.action)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "horst_smol"}, "no model 'horst_smol'.*There are: .*horst_ssv2"),
        ({"name": "horst_tiny", "num_clases": 3}, "no option 'num_clases', did you mean 'num_classes'"),
        ({"name": "horst_tiny", "num_verbs": 3}, "horst_tiny has no option 'num_verbs'"),
        ({"name": "horst_tiny", "backbone": "stm"}, "no backbone 'stm', did you mean 'stem'"),
        ({"name": "horst_tiny", "in_channels": 3}, "the backbone gives 64 channels and the core takes 3"),
        ({"name": "horst_tiny", "labels": {"action": ["a"]}}, "1 labels for 'action' and the head has 16"),
        ({"name": "horst_tiny", "labels": ["a", "b"]}, "labels is a list"),
        ({"name": "horst_tiny", "num_classes": 2, "labels": {"action": "ab"}}, "a list of names is needed"),
        ({"name": "horst_tiny", "fps": 0}, "fps is 0"),
        ({"name": "horst_tiny", "backbone": {"name": "stem", "widths": 8}}, "widths is 8"),
        ({"name": "horst_tiny", "backbone": {"name": "stem", "widths": [4, "a"]}}, "widths is 'a'"),
        ({"name": "horst_tiny", "labels": {"verb": ["a"]}}, "labels for 'verb' and the head predicts action"),
    ],
)
def test_bad_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        create_model(**options)


def test_parts_must_fit() -> None:
    model = narrow("horst_tiny", "paper")
    with pytest.raises(ConfigError, match="the core gives 96 channels and the head takes 5"):
        Predictor(model.backbone, model.core, create_head("recognition", 5, num_classes=2))


@torch.no_grad()
def test_bad_frames() -> None:
    model = narrow("horst_tiny", "paper")
    state = model.init_state(1, 33, 41)
    for x in (torch.zeros(1, 2, 4, 33, 41), torch.zeros(1, 0, 3, 33, 41), torch.zeros(3, 33, 41)):
        with pytest.raises(InputError):
            model(x)
    for x in (torch.zeros(1, 4, 33, 41), torch.zeros(3, 33, 41), torch.zeros(0, 3, 33, 41)):
        with pytest.raises(InputError):
            model.step(x, state)
    with pytest.raises(InputError, match="clip is on meta and the model on cpu"):
        model(clip(model).to("meta"))
    with pytest.raises(HorstError, match="frame size"):
        model.step(torch.zeros(1, 3, 65, 65), state)
    with pytest.raises(InputError, match="does not unroll"):
        model(clip(model), unroll=3)
