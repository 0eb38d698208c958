"""ConvLSTM: its equations, written anew; an LSTM where a map is one place; sizes; what is refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from horst.errors import ConfigError, InputError
from horst.models.methods.conv_lstm import ConvLSTM, ConvLSTMCell, ConvLSTMConfig


def small(**options: Any) -> ConvLSTM:
    torch.manual_seed(0)
    core = ConvLSTM(ConvLSTMConfig(**{"in_channels": 3, "hidden": (4,), **options})).double()
    for name, p in core.named_parameters():
        if "peepholes" in name:
            nn.init.normal_(p)
    return core


@pytest.mark.parametrize("peepholes", [False, True])
def test_equations(peepholes: bool) -> None:
    """i, f, o, g of one convolution of [x; h]; with peepholes i and f see the last cell, o the new one."""
    core = small(peepholes=peepholes)
    cell = core.layers[0]
    x = torch.randn(2, 4, 3, 5, 6, dtype=torch.float64)
    h = c = torch.zeros(2, 4, 5, 6, dtype=torch.float64)
    w_i, w_f, w_o = cell.peepholes if peepholes else torch.zeros(3, 4, 1, 1)
    y = core(x)[0].y
    for t in range(4):
        parts = F.conv2d(torch.cat([x[:, t], h], 1), cell.conv.weight, cell.conv.bias, padding=1).unflatten(1, (4, 4))
        i, f = torch.sigmoid(parts[:, 0] + w_i * c), torch.sigmoid(parts[:, 1] + w_f * c)
        c = f * c + i * torch.tanh(parts[:, 3])
        h = torch.sigmoid(parts[:, 2] + w_o * c) * torch.tanh(c)
        torch.testing.assert_close(y[:, t], h)


def test_on_a_map_of_one_position_it_is_an_lstm() -> None:
    core = small()
    conv = core.layers[0].conv
    lstm = nn.LSTMCell(3, 4).double()
    centre = conv.weight[:, :, 1, 1].unflatten(0, (4, 4))[[0, 1, 3, 2]].flatten(0, 1)  # i, f, o, g -> i, f, g, o
    with torch.no_grad():
        lstm.weight_ih.copy_(centre[:, :3])
        lstm.weight_hh.copy_(centre[:, 3:])
        lstm.bias_ih.copy_(conv.bias.unflatten(0, (4, 4))[[0, 1, 3, 2]].flatten())
        lstm.bias_hh.zero_()
    x = torch.randn(2, 5, 3, 1, 1, dtype=torch.float64)
    state = None
    for t, y in enumerate(core(x)[0].y.unbind(1)):
        state = lstm(x[:, t, :, 0, 0], state)
        torch.testing.assert_close(y[..., 0, 0], state[0])


def test_layers_read_the_pooled_output_of_the_one_before() -> None:
    core = small(hidden=(4, 6), stride=(2, 3))
    first, second = small(stride=(1,)), small(in_channels=4, hidden=(6,))
    first.layers[0].load_state_dict(core.layers[0].state_dict())
    second.layers[0].load_state_dict(core.layers[1].state_dict())
    x = torch.randn(2, 3, 3, 13, 15, dtype=torch.float64)
    middle = first(F.max_pool2d(x.flatten(0, 1), 2).unflatten(0, (2, 3)))[0].y
    wanted = second(F.max_pool2d(middle.flatten(0, 1), 3).unflatten(0, (2, 3)))[0].y
    out, state = core(x)
    torch.testing.assert_close(out.y, wanted)
    assert tuple(out.y.shape[2:]) == (core.channels, *core.output_size(13, 15)) == (6, 2, 2)
    torch.testing.assert_close(state.memory["h1"], out.y[:, -1])


def test_parameters_of_the_networks_for_video_prediction() -> None:
    """4 blocks of 3 layers; a block's output is joined by that of two blocks before; a 1 x 1 convolution to pixels."""
    assert layers_in_blocks(lambda inputs, width: ConvLSTMCell(inputs, width, 5)) == 3_973_201


def layers_in_blocks(cell: Any) -> int:
    """Parameters of that network with other cells: `cell(inputs, width)`."""
    total, inputs, outputs = 0, 1, []
    for block, width in enumerate((32, 48, 48, 32)):
        for _ in range(3):
            total += sum(p.numel() for p in cell(inputs, width).parameters())
            inputs = width
        outputs.append(width)
        inputs = width + (outputs[block - 2] if block >= 2 else 0)
    return total + inputs + 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hidden": ()}, r"hidden is \(\); it takes whole numbers, at least one"),
        ({"hidden": 4}, "hidden is 4"),
        ({"hidden": (4, 0)}, "an entry of hidden is 0"),
        ({"stride": (1, 2)}, "stride has 2 entries and hidden 1"),
        ({"stride": (0,)}, "an entry of stride is 0"),
        ({"kernel": 4}, "kernel is 4; it takes an odd number"),
        ({"in_channels": 0}, "in_channels is 0"),
        ({"peepholes": 1}, "peepholes is 1"),
    ],
)
def test_bad_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ConvLSTMConfig(**{"in_channels": 3, "hidden": (4,), **options})


def test_config_from_dict() -> None:
    config = ConvLSTMConfig.from_dict({"in_channels": 3, "hidden": [4, 6]})
    assert (config.hidden, config.stride) == ((4, 6), (1, 1))
    assert config.about == "2 ConvLSTM layers of 4, 6 channels"
    with pytest.raises(ConfigError, match=r"peephole.*did you mean 'peepholes'"):
        ConvLSTMConfig.from_dict({"in_channels": 3, "hidden": [4], "peephole": True})


def test_too_small_maps_raise() -> None:
    with pytest.raises(InputError, match="vanishes"):
        small(hidden=(4, 4), stride=(2, 2))(torch.zeros(1, 1, 3, 3, 9, dtype=torch.float64))
