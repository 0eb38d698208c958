"""The layers against the paper's equations, written out once more: one frame at a time, nothing kept, nothing split."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from cases import CASES, random_clip, small_core
from torch import Tensor

from horst.layers import HORST, HORSTCell
from horst.layers.blocks import ResidualOutput, sinusoidal
from horst.ops import reference


def ff(x: Tensor, weight: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    return F.group_norm(F.conv2d(x, weight, padding=1), 1, scale, shift)


def equations(cell: HORSTCell, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(y, e, STATT) of a clip by Eq. (4)-(11): keys and values of the whole queue anew at every step."""
    config, c = cell.config, cell.channels
    act = F.relu if config.activation == "relu" else F.silu
    kv, (k_own, v_own) = cell.key_value, (slice(None, c), slice(c, None))
    if config.key_value == "split":
        weight_k, weight_v = kv.observed.weight, kv.recurrent.weight
    else:
        weight_k, weight_v = torch.cat([kv.observed.weight, kv.recurrent.weight], 1).split(c)
    queue: list[tuple[Tensor, Tensor]] = []
    results = []
    for t, frame in enumerate(x.unbind(1)):
        frame = F.max_pool2d(frame, cell.stride)
        e = act(cell.ff_x(frame))
        located = e + sinusoidal(torch.tensor(t), c).view(c, 1, 1) if config.position == "sinusoidal" else e
        q = cell.ff_q(located)
        zero = torch.zeros_like(e)
        keys, values = [], []
        for o, h in queue or [(zero, zero)]:
            from_k, from_v = (o, h) if config.key_value == "split" else (torch.cat([o, h], 1),) * 2
            keys.append(ff(from_k, weight_k, kv.norm.weight[k_own], kv.norm.bias[k_own]))
            values.append(ff(from_v, weight_v, kv.norm.weight[v_own], kv.norm.bias[v_own]))
        heads = (split(maps, config.heads) for maps in ([q], keys, values))
        statt = torch.cat([attend(cell, *head) for head in zip(*heads, strict=True)], 1)
        h = statt if cell.ff_h is None else act(cell.ff_h(e + statt))
        m = e + statt if cell.ff_h is None else h
        if isinstance(cell.output, ResidualOutput):
            total = m + cell.output.project(frame) + (e if config.output == "residual+e" else 0)
            y = act(cell.output.ff(total))
        else:
            z = act(cell.output.ff(torch.cat([frame, m], 1)))
            se = cell.output.se
            y = z + z * torch.sigmoid(se.excite(F.relu(se.squeeze(F.adaptive_avg_pool2d(z, 1)))))
        queue = [*queue, (q if config.key_value == "query+h" else located, h)][-config.order :]
        results.append((y, e, statt, keys))
    return tuple(torch.stack([r[i] for r in results], 1) for i in range(3))  # type: ignore[return-value]


def split(maps: list[Tensor], heads: int) -> list[list[tuple[Tensor, Tensor]]]:
    """Per head, (the head's channels, the whole map) of every map."""
    return [[(m.chunk(heads, 1)[i], m) for m in maps] for i in range(heads)]


def attend(cell: HORSTCell, q: list, keys: list, values: list) -> Tensor:  # type: ignore[type-arg]
    """One head. The spatial filters look at the whole map."""
    config = cell.config

    def look(x: Tensor, module: torch.nn.Module | None) -> Tensor:
        if module is None:
            return x[:, 0]
        return reference.spatial_filter(x, module.conv.weight, module.conv.bias, config.pooled_pair)

    own_q, whole_q = q[0]
    c, h, w = own_q.shape[1:]
    return reference.statt(
        own_q,
        look(whole_q, cell.filter_q),
        [own for own, _ in keys],
        [look(whole, cell.filter_k) for _, whole in keys],
        [own for own, _ in values],
        scale=(c if config.temporal_scale == "c" else c * h * w) ** -0.5,
        mode=config.attention,
        order=config.order,
        spatial_weight=config.spatial_weight,
    ).out


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("order", [1, 3])
def test_layers_are_the_equations(case: str, order: int) -> None:
    core: HORST = small_core(case, order=order)
    x = random_clip(2, 6)
    out, _ = core(x)
    for i, cell in enumerate(core.cells):
        x, e, statt = equations(cell, x)
        torch.testing.assert_close(out.e[i], e)
        torch.testing.assert_close(out.statt[i], statt)
    torch.testing.assert_close(out.y, x)


@pytest.mark.parametrize("variant", ["paper", "released"])
def test_equal_widths_need_no_projection(variant: str) -> None:
    """Eq. (8) as printed: h + x."""
    core = small_core(variant, hidden=(3, 3), stride=(1, 1))
    assert not any("project" in name for name, _ in core.named_parameters())
    x = random_clip(2, 5)
    out, _ = core(x)
    for cell in core.cells:
        x, _, _ = equations(cell, x)
    torch.testing.assert_close(out.y, x)


def test_variants_differ_and_every_option_matters() -> None:
    """No option is ignored: each case gives other numbers than the paper's from the same weights or has others."""
    x = random_clip(1, 5)
    baseline = small_core("paper")
    wanted = baseline(x)[0].y
    for case in CASES:
        if case == "paper":
            continue
        core = small_core(case)
        if [p.shape for p in core.parameters()] == [p.shape for p in baseline.parameters()]:
            assert not torch.allclose(core(x)[0].y, wanted, rtol=1e-4), case
