"""Checkpoints of the official HORST release (github.com/CorcovadoMing/HORST, MIT).

The release has one layer file and two classifiers. Its layer computes keys and values from [e; STATT] with one
convolution each; ours are the same weights, split and stacked (see `layers.blocks.KeyValue`). The returned modules are
in evaluation mode.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Literal

import torch
from torch import Tensor

from horst.errors import CheckpointError, ConfigError, did_you_mean
from horst.heads import Head, create_head
from horst.layers import HORST, HORSTConfig
from horst.weights import load_checked

StateDict = Mapping[str, Tensor]

# Our names to theirs, for modules with one counterpart.
WITHOUT_BIAS = {"ff_x.0": "encoder.0", "ff_q.0": "mha.q_pre_f.0", "output.ff.0": "out_t.0"}
WITH_BIAS = {
    "ff_x.1": "encoder.1",
    "ff_q.1": "mha.q_pre_f.1",
    "filter_q.conv": "mha.sf_Q.f.0",
    "filter_k.conv": "mha.sf_K.f.0",
    "output.ff.1": "out_t.1",
    "output.se.squeeze": "out_t.3.f.1",
    "output.se.excite": "out_t.3.f.3",
}
LAYER_NAMES = {f"{ours}.weight": f"{theirs}.weight" for ours, theirs in (WITHOUT_BIAS | WITH_BIAS).items()}
LAYER_NAMES |= {f"{ours}.bias": f"{theirs}.bias" for ours, theirs in WITH_BIAS.items()}
KEY_VALUE_NAMES = [f"mha.{side}_pre_f.{part}" for side in "kv" for part in ("0.weight", "1.weight", "1.bias")]
NEVER_USED = ("agg_f.", "mha.v_post_f.")
HEAD_NAMES = {
    "concat": {"fc_a": "c_a.2", "fc_v": "c_v.2", "fc_n": "c_n.2", "fc_a2v": "c_a2v", "fc_a2n": "c_a2n"},
    "unroll": {
        "fc_a": "c_a.classifier.0",
        "fc_v": "c_v",
        "fc_n": "c_n",
        "fc_a2v": "c_a2v",
        "fc_a2n": "c_a2n",
        "fc_xi_v": "encoder_v.2",
        "fc_xi_n": "encoder_n.2",
        "fuse.0": "c_a.fuse_ev.0",
        "fuse.1": "c_a.fuse_ev.1",
    },
}
LSTM_NAMES = {f"lstm.{p}_{g}": f"c_a.unrolling.{p}_{g}_l0" for p in ("weight", "bias") for g in ("ih", "hh")}


def horst_from_official(state_dict: StateDict, *, stride: Sequence[int], steps: int) -> HORST:
    """The released core, from the official parameter names (`layers.b0l0.encoder.0.weight`, ...).

    Args:
        state_dict: Of the official `HORST` module; parameters that its forward never reads are ignored.
        stride: One per block, applied by each layer of the block; 1 or 2.
        steps: S, which no parameter shows.
    """
    weights = without_wrapper(state_dict)
    layers = _layers(weights, stride)
    names = [*LAYER_NAMES.values(), *KEY_VALUE_NAMES]
    expected = [f"layers.{layer}.{name}" for layer, _ in layers for name in names]
    ignored = [key for key in weights if any(f".{part}" in key for part in NEVER_USED)]
    check_keys(weights, expected, ignored)
    encoders = [_convolution(weights, f"layers.{layer}.encoder.0.weight") for layer, _ in layers]
    inputs, hidden, strides = encoders[0].shape[1], tuple(w.shape[0] for w in encoders), tuple(s for _, s in layers)
    core = HORST(HORSTConfig(in_channels=inputs, hidden=hidden, stride=strides, order=steps, variant="released"))
    converted = {}
    for i, (layer, _) in enumerate(layers):
        theirs = {key: weights[f"layers.{layer}.{key}"] for key in names}
        for side in "kv":
            _convolution(weights, f"layers.{layer}.mha.{side}_pre_f.0.weight", (hidden[i], 2 * hidden[i]))
        ours = {mine: theirs[name] for mine, name in LAYER_NAMES.items()} | _key_value(theirs)
        converted.update({f"layers.{i}.{name}": tensor for name, tensor in ours.items()})
    load_checked(core, converted, source="the official checkpoint")
    return core.eval()


def heads_from_official(state_dict: StateDict, *, kind: Literal["concat", "unroll"]) -> Head:
    """The released classifiers: `concat` of cls-epic.py, `unroll` of cls-url-epic.py."""
    if kind not in HEAD_NAMES:
        raise ConfigError(f"kind is {kind!r}; choose from {', '.join(map(repr, HEAD_NAMES))}")
    weights = without_wrapper(state_dict)
    names = {f"{ours}.{p}": f"{theirs}.{p}" for ours, theirs in HEAD_NAMES[kind].items() for p in ("weight", "bias")}
    optional = {}
    if kind == "unroll":
        names |= LSTM_NAMES
        names |= {f"fuse.1.running_{p}": f"c_a.fuse_ev.1.running_{p}" for p in ("mean", "var")}
        optional = {"fuse.1.num_batches_tracked": "c_a.fuse_ev.1.num_batches_tracked"}
    check_keys(weights, list(names.values()), list(optional.values()))
    names |= {ours: theirs for ours, theirs in optional.items() if theirs in weights}
    for fc in ("fc_a", "fc_v", "fc_n"):
        if weights[names[f"{fc}.weight"]].ndim != 2:
            raise CheckpointError(f"{names[f'{fc}.weight']!r} must have two axes: it is the weight of a linear layer")
    actions, verbs, nouns = (weights[names[f"{fc}.weight"]].shape[0] for fc in ("fc_a", "fc_v", "fc_n"))
    channels = weights[names["fc_v.weight"]].shape[1]
    name = "unrolling" if kind == "unroll" else "verb_noun_action"
    head = create_head(name, channels, num_classes=actions, num_verbs=verbs, num_nouns=nouns, form="released")
    converted = {ours: weights[theirs] for ours, theirs in names.items()}
    load_checked(head, converted, source="the official checkpoint")
    return head.eval()


def _key_value(theirs: StateDict) -> dict[str, Tensor]:
    """Their FF_K and FF_V over [e; STATT] as our two convolutions: one reads e, one reads STATT."""
    parts = ("0.weight", "1.weight", "1.bias")
    conv, weight, bias = (torch.cat([theirs[f"mha.{side}_pre_f.{part}"] for side in "kv"]) for part in parts)
    observed, recurrent = conv.chunk(2, 1)
    ours = {"observed.weight": observed, "recurrent.weight": recurrent, "norm.weight": weight, "norm.bias": bias}
    return {f"key_value.{name}": tensor for name, tensor in ours.items()}


def _layers(weights: StateDict, stride: Sequence[int]) -> list[tuple[str, int]]:
    """The names of the layers in order (b0l0, b0l1, b1l0, ...), each with the stride of its block."""
    found = {match.groups() for key in weights if (match := re.match(r"layers\.b(\d+)l(\d+)\.", key))}
    layers = sorted((int(block), int(layer)) for block, layer in found)
    if not layers:
        some = ", ".join(list(weights)[:3]) or "nothing"
        raise CheckpointError(f"there is no parameter like 'layers.b0l0.encoder.0.weight', but {some}")
    blocks = layers[-1][0] + 1
    if not isinstance(stride, Sequence):
        raise ConfigError(f"stride is {stride!r}; it must have one number per block: {blocks} here")
    if len(stride) != blocks:
        raise ConfigError(f"stride has {len(stride)} entries and the checkpoint {blocks} blocks: pass one per block")
    for value in stride:
        if value not in (1, 2):
            raise ConfigError(f"stride has {value}; the release has only 1 and 2")
    return [(f"b{block}l{layer}", stride[block]) for block, layer in layers]


def without_wrapper(state_dict: StateDict) -> dict[str, Tensor]:
    """The state dict without the prefix of DataParallel."""
    return {key.removeprefix("module."): tensor for key, tensor in state_dict.items()}


def _convolution(weights: StateDict, key: str, channels: tuple[int, int] | None = None) -> Tensor:
    """The weight of a convolution; it must have four axes, the first two of sizes `channels`."""
    weight = weights[key]
    if weight.ndim != 4 or channels not in (None, (weight.shape[0], weight.shape[1])):
        wanted = f"{channels or '(out, in)'} channels, then the kernel"
        raise CheckpointError(f"{key!r} has shape {tuple(weight.shape)}; it must have {wanted}")
    return weight


def check_keys(weights: StateDict, expected: list[str], ignored: list[str]) -> None:
    for key in expected:
        if key not in weights:
            raise CheckpointError(f"the checkpoint has no {key!r}{did_you_mean(key, weights)}")
        if not isinstance(weights[key], Tensor):
            raise CheckpointError(f"the checkpoint's {key!r} is a {type(weights[key]).__name__}, not a tensor")
    for key in weights:
        if key not in expected and key not in ignored:
            close = did_you_mean(key, expected)
            raise CheckpointError(f"the checkpoint has {key!r}, which the release does not{close}")
