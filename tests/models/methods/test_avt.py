"""AVT-h: causality, one pass against windows against steps, and torch's own transformer as a reference."""

from __future__ import annotations

from functools import partial

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from horst.errors import ConfigError, InputError
from horst.models.methods.avt import AVT, AVTConfig, CausalBlock

FEATURES, HIDDEN, HEADS = 5, 8, 2


def avt(**options: object) -> AVT:
    torch.manual_seed(0)
    small = {"in_channels": FEATURES, "hidden": HIDDEN, "heads": HEADS, "layers": 2, "context": 4}
    core = AVT(AVTConfig.from_dict({**small, **options})).double().eval()
    for parameter in core.parameters():
        nn.init.normal_(parameter, std=0.5)
    return core


def clip(frames: int) -> Tensor:
    return torch.randn(2, frames, FEATURES, 2, 3, dtype=torch.float64)


def torchs(block: CausalBlock) -> nn.TransformerEncoderLayer:
    """Torch's own layer with the weights of a block."""
    gelu = partial(F.gelu, approximate="tanh")
    layer = nn.TransformerEncoderLayer(
        HIDDEN, HEADS, 4 * HIDDEN, activation=gelu, batch_first=True, norm_first=True, dtype=torch.float64
    ).eval()
    named = {"self_attn.in_proj_": "qkv.", "self_attn.out_proj.": "proj.", "linear1.": "fc1.", "linear2.": "fc2."}
    named |= {"norm1.": "norm1.", "norm2.": "norm2."}
    ours = block.state_dict()
    layer.load_state_dict({to + end: ours[of + end] for to, of in named.items() for end in ("weight", "bias")})
    return layer


def reference(core: AVT, z: Tensor) -> Tensor:
    """z^ after each frame of a window z (B, n, C), n up to the context."""
    frames = z.shape[1]
    u = z @ core.encoder.weight.T + core.places[:frames]
    mask = torch.full((frames, frames), -torch.inf, dtype=z.dtype).triu(1)
    for block in core.blocks:
        u = torchs(block)(u, src_mask=mask)
    return core.norm(u) @ core.decoder.weight.T


@pytest.mark.parametrize("frames", [1, 3, 4, 7])
def test_each_frame_is_the_last_of_its_window(frames: int) -> None:
    core, x = avt(), clip(frames)
    out, _ = core(x)
    z = x.mean((-2, -1))
    assert out.future is not None
    assert out.future.shape == (2, frames, 1, FEATURES)
    assert torch.equal(out.y[..., 0, 0], out.future[:, :, 0])
    for t in range(frames):
        expected = reference(core, z[:, max(0, t - 3) : t + 1])[:, -1]
        torch.testing.assert_close(out.future[:, t, 0], expected)


@given(frames=st.integers(1, 8), context=st.integers(1, 8), seen=st.integers(0, 3))
@settings(max_examples=20, deadline=None)
def test_one_pass_is_windows_is_steps(frames: int, context: int, seen: int) -> None:
    core, x = avt(context=context, layers=1), clip(seen + frames)
    whole, end = core(x)  # in one pass where it fits
    windows, windows_end = core(x, core.init_state(2, 2, 3))
    state = core(x[:, :seen])[1] if seen else core.init_state(2, 2, 3)
    steps = []
    for frame in x[:, seen:].unbind(1):
        out, state = core.step(frame, state)
        steps.append(out.y)
    torch.testing.assert_close(whole.y, windows.y, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(whole.y[:, seen:], torch.stack(steps, 1), rtol=1e-9, atol=1e-9)
    for other in (windows_end, state):
        for (_, a), (_, b) in zip(end.tensors(), other.tensors(), strict=True):
            torch.testing.assert_close(a, b)


def test_clips_of_different_lengths() -> None:
    core, x = avt(), clip(4)
    for lengths in ([2, 4], [4, 4]):
        out, state = core(x, None, lengths)
        for b, n in enumerate(lengths):
            alone, end = core(x[b : b + 1, :n])
            torch.testing.assert_close(out.y[b, :n], alone.y[0])
            assert not out.y[b, n:].any()
            torch.testing.assert_close(state.memory["queue"][b], end.memory["queue"][0])
            assert state.count[b] == n


@pytest.mark.parametrize("frames", [4, 7])
def test_later_frames_have_no_influence(frames: int) -> None:
    core, x = avt(), clip(frames)
    before = core(x)[0].y
    for t in range(1, frames):
        other = x.clone()
        other[:, t:] += 1
        after = core(other)[0].y
        assert torch.equal(before[:, :t], after[:, :t])
        assert not torch.equal(before[:, t], after[:, t])


def test_frames_beyond_the_context_are_forgotten() -> None:
    core, x = avt(), clip(6)
    other = x.clone()
    other[:, :2] += 1
    a, b = core(x)[0].y, core(other)[0].y
    assert torch.equal(a[:, 5], b[:, 5])
    assert not torch.equal(a[:, 4], b[:, 4])


def test_indices_start_at_the_first_frame_of_the_window() -> None:
    """The same frame again and again looks new until the window is full."""
    core = avt()
    y = core(clip(1).expand(-1, 7, -1, -1, -1))[0].y
    torch.testing.assert_close(y[:, 3:], y[:, 3:4].expand(-1, 4, -1, -1, -1))
    assert not torch.allclose(y[:, 2], y[:, 3])


@pytest.mark.parametrize("frames", [3, 7])
def test_empty_entries_are_not_read(frames: int) -> None:
    core, x = avt(), clip(frames)
    state = core.init_state(2, 2, 3)
    state.memory["queue"].fill_(torch.nan)
    torch.testing.assert_close(core(x, state)[0].y, core(x)[0].y)


@pytest.mark.parametrize(
    ("layers", "heads", "classes", "theirs"), [(12, 8, 2513, 613_170_641), (6, 4, 3806, 312_346_334)]
)
def test_as_many_parameters_as_the_authors_network(layers: int, heads: int, classes: int, theirs: int) -> None:
    """With a classifier; but their table of places has 1024 rows and ours one for each frame of the context."""
    with torch.device("meta"):
        core = AVT(AVTConfig(in_channels=1024, layers=layers, heads=heads))
    features, d = 1024, 2048
    ours = 2 * features * d + layers * (12 * d * d + 13 * d) + 2 * d + 10 * d
    assert sum(p.numel() for p in core.parameters()) == ours
    assert ours + (1024 - 10) * d + features * classes + classes == theirs


def test_dropout_is_for_training() -> None:
    core, x = avt(dropout=0.5), clip(4)
    assert torch.equal(core(x)[0].y, core(x)[0].y)
    core.train()
    assert not torch.equal(core(x)[0].y, core(x)[0].y)


@pytest.mark.parametrize("wrong", [{"heads": 3}, {"hidden": 0}, {"layers": 0}, {"context": 0}, {"dropout": 1.0}])
def test_bad_options(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        avt(**wrong)


def test_bad_inputs() -> None:
    core = avt()
    with pytest.raises(InputError, match="shape"):
        core(clip(3)[:, 0])
    with pytest.raises(InputError, match="lengths"):
        core(clip(3), None, [1, 4])
    with pytest.raises(InputError, match="attention"):
        core(clip(3), attention=True)
