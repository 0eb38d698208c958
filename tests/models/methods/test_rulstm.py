"""Unrolling against a plain loop with torch's LSTM: how many steps, which frames, and where dropout is."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from horst.errors import ConfigError, InputError
from horst.models.methods.lstm import LSTM, LSTMConfig
from horst.models.methods.rulstm import RollingUnrollingHead


def head(**options: Any) -> RollingUnrollingHead:
    torch.manual_seed(0)
    return RollingUnrollingHead(6, features=4, num_classes=5, **options).double().eval()


def maps(frames: int = 14) -> dict[str, Tensor]:
    torch.manual_seed(1)
    sizes = {"y": 6, "c": 6, "x": 4}
    return {name: torch.randn(2, frames, size, 1, 1, dtype=torch.float64) for name, size in sizes.items()}


def unrolled(head: RollingUnrollingHead, m: dict[str, Tensor], t: int, read: Tensor) -> Tensor:
    """The logits of frame t when torch's LSTM reads `read` (B, n, F) from its state on."""
    lstm = nn.LSTM(4, 6, batch_first=True).double()
    for name, weight in head.lstm.named_parameters():
        getattr(lstm, f"{name}_l0").data.copy_(weight)
    first = tuple(m[name][:, t, :, 0, 0].unsqueeze(0).contiguous() for name in ("y", "c"))
    return head.fc(lstm(read, first)[0][:, -1])


@pytest.mark.parametrize("extra", [0, 1, 2])
def test_it_is_a_loop_over_copies_of_the_frame(extra: int) -> None:
    model, m = head(extra=extra), maps()
    found = model(**m).action
    for t in range(14):
        copies = m["x"][:, t, None, :, 0, 0].expand(-1, 14 - t + extra, -1)
        torch.testing.assert_close(found[:, t], unrolled(model, m, t, copies))


def test_completion_reads_the_frames_that_follow() -> None:
    """From the frame itself to the last: T - t steps, none extra."""
    model, m = head(), maps()
    found = model(**m, complete=True).action
    for t in range(14):
        torch.testing.assert_close(found[:, t], unrolled(model, m, t, m["x"][:, t:, :, 0, 0]))


def test_horizons() -> None:
    """One number for all, one a frame, several a frame, and single frames agree."""
    model, m = head(), maps(frames=3)
    each = model(**m, unroll=[4, 2, 9]).action
    several = model(**m, unroll=[[4, 1], [2, 2], [9, 12]]).action
    assert several.shape == (2, 3, 2, 5)
    torch.testing.assert_close(several[:, :, 0], each)
    torch.testing.assert_close(several[:, 1, 0], several[:, 1, 1])
    torch.testing.assert_close(model(**m, unroll=4).action[:, 0], each[:, 0])
    for t, steps in enumerate([4, 2, 9]):
        frame = {name: a[:, t] for name, a in m.items()}
        torch.testing.assert_close(model(**frame, unroll=steps).action, each[:, t])
        torch.testing.assert_close(model(**frame, unroll=[12, steps]).action[:, 1], each[:, t])
    with pytest.raises(InputError, match="pass unroll"):
        model(**frame)


def test_every_step_has_its_own_dropout_mask() -> None:
    """0.8 of what the LSTM reads and of what the classifier reads is dropped, in training."""
    model, m, masks = head(dropout=0.8).train(), maps(), []
    model.dropout.register_forward_hook(lambda _, given, out: masks.append((given[0] != 0) & (out == 0)))
    model(**m)
    assert [mask.shape[1] for mask in masks] == [14, *range(14, 0, -1), 14]  # all read n >= 2 steps; then h
    shares = torch.cat([mask.flatten() for mask in masks]).double().mean()
    assert 0.7 < shares < 0.9
    assert not torch.equal(masks[0], masks[1])


def test_counts_of_the_release() -> None:
    """The RGB branch for EPIC-Kitchens-55 and -100."""
    with torch.device("meta"):
        core = LSTM(LSTMConfig(in_channels=1024))
        heads = [RollingUnrollingHead(1024, features=1024, num_classes=n) for n in (2513, 3806)]
    sizes = [sum(p.numel() for m in (core, h) for p in m.parameters()) for h in heads]
    assert sizes == [19_369_425, 20_694_750]


@pytest.mark.parametrize(
    "options", [{"extra": -1}, {"extra": True}, {"dropout": 1.0}, {"dropout": "0.8"}, {"steps": 0}]
)
def test_bad_options(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"{next(iter(options))} is "):
        head(**options)


@pytest.mark.parametrize("name", ["y", "c", "x"])
def test_maps_of_other_channels(name: str) -> None:
    m = maps()
    with pytest.raises(InputError, match=rf"{name} has shape \(2, 14, 3, 1, 1\)"):
        head()(**{**m, name: m[name][:, :, :3]})
