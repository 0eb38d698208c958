"""Checkpoints of the public Conv-TT-LSTM code: its Conv-TT-LSTM cell, and the ConvLSTM cell that it is compared with.

Only parameters are converted; the cells are ours. A checkpoint of one cell becomes a core of one layer, in evaluation
mode.
"""

from horst.compat.official import StateDict, check_keys, without_wrapper
from horst.config import check_positive
from horst.errors import CheckpointError, ConfigError
from horst.models.methods.conv_lstm import ConvLSTM, ConvLSTMConfig, ConvTTLSTM, ConvTTLSTMConfig
from horst.weights import load_checked


def conv_tt_lstm_from_official(state_dict: StateDict, *, order: int, steps: int, ranks: int) -> ConvTTLSTM:
    """A Conv-TT-LSTM cell, from its parameter names (`layers.0.weight`, `layers_.0.weight`, ...).

    Args:
        state_dict: Of one cell.
        order: Order of the tensor train: the number of convolutions over past states, `layers_.l`.
        steps: How many past states it reads; the depth of these convolutions is steps - order + 1.
        ranks: Channels between the cores.
    """
    check_positive(order=order, steps=steps, ranks=ranks)
    weights = without_wrapper(state_dict)
    names = {f"chain.{i}": f"layers.{i}" for i in range(order - 1)} | {"gates": f"layers.{order - 1}"}
    names |= {f"windows.{i}": f"layers_.{i}" for i in range(order)}
    names = {f"{ours}.{p}": f"{theirs}.{p}" for ours, theirs in names.items() for p in ("weight", "bias")}
    found = {key.rsplit(".", 1)[0] for key in weights if key.startswith("layers_.")}
    if found and len(found) != order:
        raise ConfigError(f"order is {order} and the checkpoint has {len(found)} convolutions over past states")
    check_keys(weights, list(names.values()), [])
    window = weights["layers_.0.weight"]
    if window.ndim != 5:
        raise CheckpointError(f"'layers_.0.weight' has shape {tuple(window.shape)}; it must be a 3-D convolution")
    hidden, depth = window.shape[1], window.shape[4]
    if window.shape[0] != ranks:
        raise ConfigError(f"ranks is {ranks} and 'layers_.0.weight' gives {window.shape[0]} channels")
    if depth != steps - order + 1:
        raise ConfigError(
            f"steps is {steps} and order {order}, so windows of {steps - order + 1} states; "
            f"'layers_.0.weight' reads {depth}: steps would be {depth + order - 1}"
        )
    inputs = _inputs(weights, names["gates.weight"], hidden, ranks)
    kernel = _kernel(weights, "layers_.0.weight")
    core = ConvTTLSTM(
        ConvTTLSTMConfig(in_channels=inputs, hidden=(hidden,), kernel=kernel, order=order, steps=steps, ranks=ranks)
    )
    converted = {ours: weights[theirs] for ours, theirs in names.items()}
    for i in range(order):
        name = f"windows.{i}.weight"
        if converted[name].shape != window.shape:
            shapes = f"{tuple(converted[name].shape)}; the first has {tuple(window.shape)}"
            raise CheckpointError(f"'layers_.{i}.weight' has shape {shapes}")
        # (R, C, k, k, L) -> (R, L C, k, k): the states' channels in a row, the oldest's first
        converted[name] = converted[name].permute(0, 4, 1, 2, 3).flatten(1, 2)
    load_checked(core, {f"layers.0.{k}": v for k, v in converted.items()}, source="the Conv-TT-LSTM checkpoint")
    return core.eval()


def conv_lstm_from_official(state_dict: StateDict) -> ConvLSTM:
    """A ConvLSTM cell of the same code, from its parameter names (`conv.weight`, `conv.bias`)."""
    weights = without_wrapper(state_dict)
    check_keys(weights, ["conv.weight", "conv.bias"], [])
    hidden = weights["conv.weight"].shape[0] // 4 if weights["conv.weight"].ndim else 0
    inputs = _inputs(weights, "conv.weight", hidden, hidden)
    core = ConvLSTM(ConvLSTMConfig(in_channels=inputs, hidden=(hidden,), kernel=_kernel(weights, "conv.weight")))
    load_checked(core, {f"layers.0.{k}": v for k, v in weights.items()}, source="the ConvLSTM checkpoint")
    return core.eval()


def _inputs(weights: StateDict, key: str, hidden: int, state: int) -> int:
    """Channels of a cell's input, from the weight of its gates, which also read `state` channels."""
    weight = weights[key]
    if weight.ndim != 4 or weight.shape[0] != 4 * hidden or hidden < 1 or weight.shape[1] <= state:
        raise CheckpointError(
            f"{key!r} has shape {tuple(weight.shape)}; it must give four gates of {hidden} channels "
            f"from an input and {state} past channels"
        )
    return weight.shape[1] - state


def _kernel(weights: StateDict, key: str) -> int:
    """Height and width of a kernel (out, in, k, k, ...)."""
    height, width = weights[key].shape[2:4]
    if height != width or height % 2 == 0:
        raise CheckpointError(f"{key!r} has a kernel of {height}x{width}; it must be square and odd")
    return height
