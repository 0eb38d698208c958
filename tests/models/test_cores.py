"""The contract of every registered core: a whole clip equals single steps, and a prefix followed by steps."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Any

import pytest
import torch
from torch import Tensor

from horst.errors import ConfigError, InputError, StateError
from horst.layers import CORES, Core, CoreOutput, core_config, create_core
from horst.models import MODELS, Predictor, create_model

SMALL: dict[str, dict[str, Any]] = {
    "horst": {"hidden": [4, 6], "stride": [1, 2], "order": 3},
    "cnn3d": {"hidden": [4, 6], "stride": [1, 2]},
    "conv_lstm": {"hidden": [4, 6], "stride": [1, 2], "peepholes": True},
    "e3d_lstm": {"hidden": [4, 4], "stride": [1, 2], "kernel": 3, "history": 3},
    "conv_tt_lstm": {"hidden": [4, 6], "stride": [1, 2], "steps": 4, "ranks": 2},
    "lstm": {"hidden": 5, "layers": 2},
    "feedback": {"hidden": 5, "projection": 3},
    "tsn": {"hidden": 4, "segments": 3},
    "dmr": {"hidden": 4, "mlp": 5, "ahead": 2},
    "action_banks": {"hidden": 8, "memory": 4, "spanning": [2, 3], "recent": [2, 3]},
    "avt": {"hidden": 8, "layers": 2, "heads": 2, "context": 3},
    "lstr": {"hidden": 8, "heads": 2, "context": 2, "long": 3, "tokens": [2, 3]},
    "testra": {"hidden": 8, "heads": 2, "context": 2, "tokens": [2, 3]},
    "mpnnel": {"hidden": 8, "heads": 2},
    "fused": {
        "members": [
            {"name": "horst", "in_channels": 3, "hidden": [4], "order": 2},
            {"name": "lstm", "in_channels": 2, "hidden": 5},
        ]
    },
}
IN, SIZE = 5, (7, 6)
every_core = pytest.mark.parametrize("name", CORES)


def small(name: str, seed: int = 0) -> Core:
    """The core with the options of SMALL, or those of its smallest model."""
    torch.manual_seed(seed)
    models = [config for config in (make() for make in MODELS.values()) if config.core.name == name]
    options = SMALL[name] if name in SMALL else asdict(models[-1].core)
    return create_core(core_config({"name": name, **options, "in_channels": IN})).double().eval()


def clip(frames: int = 6, batch: int = 2) -> Tensor:
    return torch.randn(batch, frames, IN, *SIZE, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def flat(out: CoreOutput) -> dict[str, Tensor]:
    found = {"y": out.y, **out.more} | {f"e{i}": e for i, e in enumerate(out.e)}
    return found if out.future is None else {**found, "future": out.future}


def fold(core: Core, x: Tensor, state: Any) -> tuple[dict[str, Tensor], Any]:
    found = []
    for frame in x.unbind(1):
        out, state = core.step(frame, state)
        found.append(flat(out))
    return {name: torch.stack([s[name] for s in found], 1) for name in found[0]}, state


def with_gradients(core: Core, x: Tensor, prefix: int | None) -> list[Any]:
    x = x.clone().requires_grad_()
    if prefix is None:
        out, state = core(x)
        found = flat(out)
    else:
        found, state = {}, core.init_state(len(x), *SIZE)
        if prefix:
            out, state = core(x[:, :prefix])
            found = flat(out)
        if prefix < x.shape[1]:
            rest, state = fold(core, x[:, prefix:], state)
            found = {name: torch.cat([found[name], rest[name]], 1) if found else rest[name] for name in rest}
    kept = dict(state.tensors())
    parts = [*found.values(), *(t for t in kept.values() if t.is_floating_point())]
    loss = sum((p * torch.arange(p.numel()).view_as(p).cos()).sum() for p in parts)
    return [found, kept, list(torch.autograd.grad(loss, [x, *core.parameters()], allow_unused=True))]


def test_every_core_has_a_model() -> None:
    assert {type(make().core).name for make in MODELS.values()} == set(CORES) - {"fused"}  # made of trained models
    assert set(SMALL) <= set(CORES)


@every_core
@pytest.mark.parametrize("frames", [6, 1])
def test_whole_clip_equals_steps_equals_prefix_then_steps(name: str, frames: int) -> None:
    core, x = small(name), clip(frames)
    wanted = with_gradients(core, x, None)
    for prefix in {0, 1, frames // 2}:
        torch.testing.assert_close(with_gradients(core, x, prefix), wanted, rtol=1e-9, atol=1e-10)


@every_core
def test_lengths(name: str) -> None:
    """Each sample is as if alone; what stands in the padding is nobody's."""
    core, x, lengths = small(name), clip(batch=3), [6, 2, 4]
    for b, n in enumerate(lengths):
        x[b, n:] = torch.nan
    out, state = core(x, lengths=lengths)
    for b, n in enumerate(lengths):
        alone, after = core(x[b : b + 1, :n])
        torch.testing.assert_close(out.y[b : b + 1, :n], alone.y, rtol=1e-9, atol=1e-10)
        assert not out.y[b, n:].any()
        for (_, found), (_, wanted) in zip(state.tensors(), after.tensors(), strict=True):
            torch.testing.assert_close(found[b : b + 1], wanted, rtol=1e-9, atol=1e-10)


@every_core
def test_streams_of_different_age_share_a_batch(name: str) -> None:
    core, x = small(name), clip()
    _, old = core(x[:1, :4])
    _, young = core(x[1:, :1])
    pairs = zip(old.tensors(), young.tensors(), strict=True)
    both = iter([torch.cat([a, b]) for (_, a), (_, b) in pairs])
    state = old.map(lambda _: next(both))
    before = [t.clone() for _, t in state.tensors()]
    out, _ = core.step(torch.cat([x[:1, 4], x[1:, 1]]), state)
    torch.testing.assert_close(out.y[0], core(x[:1, :5])[0].y[0, -1], rtol=1e-9, atol=1e-10)
    torch.testing.assert_close(out.y[1], core(x[1:, :2])[0].y[0, -1], rtol=1e-9, atol=1e-10)
    torch.testing.assert_close([t for _, t in state.tensors()], before, rtol=0, atol=0)  # it is left as it was


@every_core
def test_later_frames_have_no_influence(name: str) -> None:
    core, x = small(name), clip()
    other = x.clone()
    other[:, 3:] = 7.0
    found, wanted = flat(core(x)[0]), flat(core(other)[0])
    assert all(torch.equal(found[name][:, :3], wanted[name][:, :3]) for name in wanted)


@every_core
def test_state_has_a_fixed_size_and_counts_frames(name: str) -> None:
    core = small(name)
    state = core.init_state(2, *SIZE)
    assert all(not t.any() for key, t in state.tensors()) or name in ("horst", "fused")  # HORST's has a key
    sizes = {state.nbytes}
    for frame in clip(9).unbind(1):
        _, state = core.step(frame, state)
        sizes.add(state.nbytes)
    assert len(sizes) == 1
    assert state.count.tolist() == [9, 9]
    assert not any(t.requires_grad for _, t in state.detach().tensors())


@every_core
def test_foreign_states_and_inputs(name: str) -> None:
    core, x = small(name), clip()
    state = core.init_state(2, *SIZE)
    for bad in (core.init_state(3, *SIZE), state.map(lambda t: t.float() if t.is_floating_point() else t), None):
        if name == "dmr" and bad is not None and bad.count.shape == (2,):
            continue  # it remembers no number
        with pytest.raises(StateError):
            core.step(x[:, 0], bad)
    other = {"order": 2} if name == "horst" else {}
    config = replace(core.config, **(other or {"in_channels": IN + 1}))
    with pytest.raises(StateError, match="another model"):
        core.step(x[:, 0], replace(state, config=config))
    for bad in (x[:, :, :4], x[0], x[:, :0], x.float()):
        with pytest.raises(InputError):
            core(bad)
    if core.order == 0:
        with pytest.raises(InputError, match="no attention weights"):
            core(x, attention=True)
        with pytest.raises(ConfigError, match="the backend compiled is for HORST"):
            core.use_backend("compiled")


@every_core
def test_autocast_keeps_the_state_exact(name: str) -> None:
    core, x = small(name).float(), clip(3).float()
    with torch.autocast("cpu", torch.bfloat16):
        out, state = core(x)
        _, state = core.step(x[:, 0], state)
    assert torch.isfinite(out.y).all()
    torch.testing.assert_close(out.y.float(), core(x)[0].y, rtol=0.2, atol=0.2)
    assert {t.dtype for _, t in state.tensors() if t.is_floating_point()} <= {torch.float32}


@every_core
def test_a_config_is_plain_data(name: str) -> None:
    config = small(name).config
    found = json.loads(json.dumps({"name": name, **asdict(config)}))
    assert core_config(found) == config
    assert config.title
    assert config.about
    with pytest.raises(ConfigError, match="hiden"):
        core_config({**found, "hiden": 3})


def test_unknown_cores() -> None:
    with pytest.raises(ConfigError, match="no core 'conv_lst', did you mean 'conv_lstm'"):
        core_config({"name": "conv_lst"})


ZOO = [name for name in MODELS if name.endswith(("_tiny", "_anticipation", "_unroll")) and "ek" not in name]


def tiny(name: str) -> Predictor:
    torch.manual_seed(0)
    return create_model(name, backbone={"name": "stem", "widths": [6, 8]}, size=(24, 32))


@pytest.mark.parametrize("name", ZOO)
def test_models_stream_save_and_use_every_parameter(name: str, tmp_path: Any) -> None:
    from horst.models import load, save

    model = tiny(name).train()
    frames = torch.randint(0, 256, (3, 6, 3, 24, 32), generator=torch.Generator().manual_seed(2), dtype=torch.uint8)
    out, _ = model(frames)
    futures = [f for f in (out.core.future, out.logits.future) if f is not None]
    assert bool(futures) == (model.core.predicts_features or model.head.predicts_features)
    sum(a.square().sum() for a in [*(out.logits[task] for task in out.logits), *futures]).backward()
    assert [n for n, p in model.named_parameters() if p.grad is None] == []

    model.eval()
    unroll = {"unroll": 3} if model.head.unrolls else {}
    with torch.inference_mode():
        whole, _ = model(frames, **({"unroll": [3] * 6} if unroll else {}))
        state = model.init_state(3, 24, 32)
        for frame in frames.unbind(1):
            found, state = model.step(frame, state, **unroll)
    torch.testing.assert_close(found.logits.action, whole.logits.action[:, -1], rtol=1e-4, atol=1e-4)
    again = load(save(model, tmp_path / name))
    assert again.config == model.config
    with torch.inference_mode():
        torch.testing.assert_close(again(frames)[0].logits.action, model(frames)[0].logits.action)


@pytest.mark.parametrize(
    "name", ["conv_tt_lstm_tiny", "rulstm_tiny", "avt_tiny", "mce_tiny", "lstr_tiny", "testra_tiny"]
)
def test_exported_steps(name: str) -> None:
    """The step that torch.export traces gives the same, from a state of zeros on."""
    from horst.export.contract import contract
    from horst.export.step import StepModule, example

    model = tiny(name).eval()
    unroll = 2 if model.head.unrolls else None
    made = contract(model, "step", unroll=unroll)
    step = torch.export.export(StepModule(model, unroll), example(made, 2), strict=False).module()
    state = example(made, 2)[1:]
    own = model.init_state(2, 24, 32)
    frames = torch.randint(0, 256, (5, 2, 3, 24, 32), generator=torch.Generator().manual_seed(3), dtype=torch.uint8)
    with torch.inference_mode():
        for frame in frames:
            found = step(frame, *state)
            tasks = len(found) - len(state)
            state = found[tasks:]
            out, own = model.step(frame, own, **({"unroll": unroll} if unroll else {}))
            wanted = [out.logits[task] for task in out.logits]
            torch.testing.assert_close(list(found[:tasks]), wanted, rtol=1e-4, atol=1e-4)


def test_heads_read_what_their_core_gives() -> None:
    model = tiny("rulstm_tiny")
    config = {"name": "tsn", "in_channels": model.backbone.channels, "hidden": model.head.channels}
    core = create_core(core_config(config))
    with pytest.raises(ConfigError, match=r"RollingUnrollingHead reads c, which TSN does not give"):
        Predictor(model.backbone, core, model.head)


@pytest.mark.parametrize("name", ["conv_lstm_tiny", "rulstm_tiny"])
def test_live_streams(name: str) -> None:
    """Frame by frame with times, by many streams, with nothing to tell of attention; as the whole clip."""
    from horst.streaming import SessionPool

    model = tiny(name).eval()
    frames = torch.randint(0, 256, (5, 24, 32, 3), generator=torch.Generator().manual_seed(4), dtype=torch.uint8)
    pool = SessionPool(model, capacity=2)
    first, late = pool.open(attention=True), pool.open()
    for i, image in enumerate(frames.numpy()):
        first.push(image, i / model.fps)
        if i > 1:
            late.push(image, i / model.fps)
        pool.step()
    steps = round(pool.horizon * model.fps) if model.head.unrolls else None
    for slot, seen in ((first, frames), (late, frames[2:])):
        with torch.inference_mode():
            unroll = {} if steps is None else {"unroll": [steps] * len(seen)}
            whole, _ = model(seen.permute(0, 3, 1, 2)[None], **unroll)
        assert slot.latest is not None
        assert slot.latest.attention is None
        wanted = whole.logits.action[0, -1].softmax(-1)
        torch.testing.assert_close(
            torch.from_numpy(slot.latest.probabilities["action"]).float(), wanted, atol=1e-4, rtol=1e-3
        )


def test_cores_for_whole_clips_cannot_stream() -> None:
    options = {"backbone": {"name": "stem", "widths": [6, 8]}, "size": (24, 32), "padding": "centred"}
    model = create_model("cnn3d_tiny", **options).eval()
    with pytest.raises(InputError, match="3D-CNN takes whole clips only"):
        model.stream()
    with pytest.raises(InputError, match="whole clips only"):
        model.step(torch.zeros(1, 3, 24, 32), model.init_state(1, 24, 32))


def test_errors_of_models_on_vectors() -> None:
    with pytest.raises(InputError, match="reads precomputed feature maps"):
        create_model("tsn_ek55").eval().stream()
    with pytest.raises(ConfigError, match="give `size` too"):
        create_model("tsn_ek55", backbone="bn_inception")
    assert create_model("tsn_tiny", backbone={"name": "maps", "channels": 7}).core.config.in_channels == 7


@every_core
def test_training_reads_what_a_clip_gives(name: str) -> None:
    """`encode` is `forward` without the state."""
    core, x = small(name), clip()
    found, wanted = flat(core.encode(x)), flat(core(x)[0])
    assert found.keys() == wanted.keys()
    for key, value in wanted.items():
        assert torch.equal(found[key], value), key


@pytest.mark.integration
@pytest.mark.parametrize("name", ["horst", "gru", "lstm", "testra"])
@torch.inference_mode()
def test_an_hour_in_frames_and_in_chunks(name: str) -> None:
    """At 5 frames a second: the state after single frames is that after chunks, and its size is constant."""
    core, source, chunk = small(name), torch.Generator().manual_seed(0), 450
    single, chunked, sizes = core.init_state(1, 2, 3), core.init_state(1, 2, 3), set()
    for _ in range(3600 * 5 // chunk):
        frames = torch.randn(1, chunk, IN, 2, 3, generator=source, dtype=torch.float64)
        for frame in frames.unbind(1):
            last, single = core.step(frame, single)
        clip, chunked = core(frames, chunked)
        sizes |= {sum(t.nbytes for _, t in state.tensors()) for state in (single, chunked)}
    torch.testing.assert_close(dict(single.tensors()), dict(chunked.tensors()), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(last.y, clip.y[:, -1], rtol=1e-9, atol=1e-9)
    assert len(sizes) == 1
