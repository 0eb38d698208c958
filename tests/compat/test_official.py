"""The released variant against recorded outputs of the official release: core and heads, clip, steps and lengths."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from horst.compat import heads_from_official, horst_from_official
from horst.compat.parity import LIMIT, against_release, recorded_release, relative_error
from horst.errors import CheckpointError, ConfigError


def recorded_weights() -> dict[str, Tensor]:
    _, tensors, _ = recorded_release()
    return {k.removeprefix("weight."): v for k, v in tensors.items() if k.startswith("weight.")}


def test_core_equals_the_release() -> None:
    errors = against_release()
    assert len(errors) == 4
    assert all(error <= LIMIT for error in errors.values()), errors


@torch.no_grad()
def test_steps_equal_the_release() -> None:
    core, recorded, _ = recorded_release()
    x = recorded["input"]
    state, outs = core.init_state(x.shape[0], *x.shape[-2:]), []
    for t in range(x.shape[1]):
        out, state = core.step(x[:, t], state)
        outs.append(out)
    assert relative_error(torch.stack([o.y for o in outs], 1), recorded["output"]) <= LIMIT
    for i in range(2):
        assert relative_error(torch.stack([o.e[i] for o in outs], 1), recorded[f"e.b{i}l0"]) <= LIMIT
        assert relative_error(torch.stack([o.statt[i] for o in outs], 1), recorded[f"statt.b{i}l0"]) <= LIMIT


@torch.no_grad()
def test_lengths_equal_the_release_and_leave_each_state_at_its_own_end() -> None:
    core, recorded, lengths = recorded_release()
    x = recorded["input"]
    out, state = core(x, lengths=lengths)
    assert relative_error(out.y, recorded["output_variable_length"]) <= LIMIT
    for b, length in enumerate(lengths):
        _, alone = core(x[b : b + 1, :length])
        for ours, wanted in zip(state.layers, alone.layers, strict=True):
            assert relative_error(ours.keys[b : b + 1], wanted.keys) <= LIMIT
            assert ours.count[b] == wanted.count[0] == length


@torch.no_grad()
@pytest.mark.parametrize("kind", ["concat", "unroll"])
def test_heads_equal_the_release(kind: str, data: Path) -> None:
    recorded = load_file(data / "official_heads.safetensors")
    prefix = f"{kind}.weight."
    head = heads_from_official(
        {k.removeprefix(prefix): v for k, v in recorded.items() if k.startswith(prefix)}, kind=kind
    )
    y, e, statt = recorded["input"].unbind(-1)
    logits = head(y=y, e=e, statt=statt)
    assert list(logits) == ["action", "verb", "noun"]
    for task in logits:
        assert relative_error(logits[task], recorded[f"{kind}.{task}"]) <= LIMIT, task
    for t in range(y.shape[1]):
        unroll = {"unroll": 14 - t} if kind == "unroll" else {}
        step = head(y=y[:, t], e=e[:, t], statt=statt[:, t], **unroll)
        assert relative_error(step.action, recorded[f"{kind}.action"][:, t]) <= LIMIT


def test_layers_of_several_blocks_come_in_order() -> None:
    """b0l0, b0l1, b1l0: widths by block, the block's stride applied by each of its layers."""
    weights = recorded_weights()
    first = {k.replace("b0l0", "b0l1"): v for k, v in weights.items() if k.startswith("layers.b0l0")}
    first["layers.b0l1.encoder.0.weight"] = torch.randn(8, 8, 3, 3)
    first["layers.b0l1.out_t.0.weight"] = torch.randn(8, 16, 3, 3)
    core = horst_from_official(weights | first, stride=[2, 1], steps=4)
    assert core.config.hidden == (8, 8, 12)
    assert core.config.stride == (2, 2, 1)
    assert torch.equal(core.cells[1].ff_x[0].weight, first["layers.b0l1.encoder.0.weight"])


def test_wrapped_checkpoints_load() -> None:
    core = horst_from_official({f"module.{k}": v for k, v in recorded_weights().items()}, stride=[1, 2], steps=4)
    assert core.config.hidden == (8, 12)


def test_mismatches_are_named() -> None:
    weights = recorded_weights()
    key = "layers.b1l0.encoder.0.weight"
    with pytest.raises(CheckpointError, match=f"no '{key}'"):
        horst_from_official({k: v for k, v in weights.items() if k != key}, stride=[1, 2], steps=4)
    with pytest.raises(CheckpointError, match=r"encodr\.0\.weight.*did you mean.*encoder\.0\.weight"):
        horst_from_official({**weights, "layers.b1l0.encodr.0.weight": weights[key]}, stride=[1, 2], steps=4)
    with pytest.raises(CheckpointError, match="shape"):
        horst_from_official({**weights, "layers.b1l0.encoder.1.bias": torch.zeros(3)}, stride=[1, 2], steps=4)
    with pytest.raises(CheckpointError, match="NaN"):
        horst_from_official({**weights, key: weights[key] * float("nan")}, stride=[1, 2], steps=4)
    for bad in (torch.zeros(3), torch.zeros(12, 3, 3, 3), 5):
        with pytest.raises(CheckpointError, match=r"k_pre_f\.0\.weight"):
            horst_from_official({**weights, "layers.b1l0.mha.k_pre_f.0.weight": bad}, stride=[1, 2], steps=4)
    with pytest.raises(CheckpointError, match="must have"):
        horst_from_official({**weights, key: torch.zeros(3)}, stride=[1, 2], steps=4)
    with pytest.raises(ConfigError, match="stride is 1; it must have one number per block"):
        horst_from_official(weights, stride=1, steps=4)  # type: ignore[arg-type]
    with pytest.raises(CheckpointError, match="there is no parameter like"):
        horst_from_official({"conv.weight": torch.zeros(1)}, stride=[1], steps=4)
    with pytest.raises(ConfigError, match="1 entries and the checkpoint 2 blocks"):
        horst_from_official(weights, stride=[1], steps=4)
    with pytest.raises(ConfigError, match="stride has 3"):
        horst_from_official(weights, stride=[1, 3], steps=4)
    with pytest.raises(ConfigError, match="kind is 'both'"):
        heads_from_official({}, kind="both")  # type: ignore[arg-type]
