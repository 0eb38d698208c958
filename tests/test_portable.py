"""A small part of `make portable`: tests of numbers as other processors would compute them."""

from __future__ import annotations

import pytest
import torch
from other_rounding import OtherRounding

from tools.portable import SETTINGS, missing, processor_flags, run

FILES = ("tests/layers/test_equations.py", "tests/training/test_network.py", "tests/video/test_augment_ops.py")


@pytest.mark.integration
@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: ",".join(setting.values()))
def test_numbers_do_not_depend_on_the_processor(setting: dict[str, str]) -> None:
    if lacking := missing(setting, processor_flags()):
        pytest.skip(f"this processor has no {', '.join(lacking)}")
    assert run(setting, ["-n", "0", *FILES]) == 0


@pytest.fixture
def sums() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    return torch.randn(20, 30), torch.randn(30, 40)


def test_other_rounding_is_small_repeats_and_is_another_for_each_seed(sums: tuple[torch.Tensor, torch.Tensor]) -> None:
    a, b = sums
    found = []
    for seed in (1, 1, 2):
        with OtherRounding(seed):
            found.append(a @ b)
    first, again, other = found
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert not torch.equal(first, a @ b)
    error = (first - a.double() @ b.double()).abs() / (a.abs() @ b.abs())
    assert 2**-24 < float(error.max()) < 2**-20


def test_other_rounding_leaves_whole_numbers_and_the_rest_of_a_batch(sums: tuple[torch.Tensor, torch.Tensor]) -> None:
    a, b = sums
    changed = a.clone()
    changed[10:] = 7
    with OtherRounding(1):
        assert torch.equal((a @ b)[:10], (changed @ b)[:10])
        assert torch.equal(a.round() @ b.round(), (a.double().round() @ b.double().round()).float())
