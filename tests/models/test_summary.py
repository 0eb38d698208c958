"""The costs that `horst info` prints, against counts by other means."""

from __future__ import annotations

import pytest
import torch

from horst.models import create_model, model_config
from horst.models.summary import summarize
from horst.ops import joint_ops, statt_ops, temporal_ops


@pytest.mark.parametrize("variant", ["paper", "released"])
def test_totals_equal_the_real_model(variant: str) -> None:
    model = create_model("horst_tiny", variant=variant)
    summary = summarize(model_config("horst_tiny", variant=variant))
    assert summary.parameters == sum(p.numel() for p in model.parameters())
    assert summary.state_bytes == model.init_state(1, 112, 112).nbytes
    maps = model.backbone(torch.zeros(1, 3, 112, 112))
    assert summary.rows[0].output == tuple(maps.shape[1:])
    out, _ = model.core(maps.unsqueeze(1))
    assert summary.rows[3].output == tuple(out.y.shape[2:])


def test_ssv2_network_counts_by_hand() -> None:
    """The convolutions of a layer in the released variant: e, Q, K and V from 2C, y from C_in + C."""
    summary = summarize(model_config("horst_ssv2", variant="released"))
    for row, (c_in, c, side) in zip(
        summary.rows[1:5], [(128, 128, 56), (128, 256, 56), (256, 512, 28), (512, 512, 14)], strict=True
    ):
        convolutions = 2 * 9 * c * side * side * (c_in + c + 2 * 2 * c + c_in + c)
        squeeze = 2 * 2 * c * (c // 4)
        filters = 2 * 2 * 18 * side * side  # of Q and of the one new key
        weighing = 2 * 49 * c * side * side
        assert row.flop == convolutions + squeeze + filters + weighing
    assert 66e9 < sum(row.flop for row in summary.rows[1:5]) < 68e9


def test_attention_counts() -> None:
    costs = summarize(model_config("horst_ssv2")).attention[0]
    shape = (8, 128, 56, 56)
    assert (costs.statt, costs.joint, costs.temporal) == (statt_ops(*shape), joint_ops(*shape), temporal_ops(*shape))


@pytest.mark.parametrize("name", ["horst_ek55", "horst_ek100_unroll"])
def test_summaries_of_large_models_need_no_memory(name: str) -> None:
    assert summarize(model_config(name)).parameters > 5e7
