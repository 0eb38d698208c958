"""BN-Inception against the values of the public network, and the loading of TSN checkpoints into it."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from near import assert_near
from safetensors import safe_open
from torch import Tensor
from torch.nn import functional as F

from horst.backbones import BNInception, bn_inception, load_tsn, read_tsn
from horst.errors import CheckpointError, InputError

PREFIX = "module.base_model."
SOME_KEY = "inception_4c_double_3x3_2.weight"


@pytest.fixture(scope="module")
def golden(data: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    with safe_open(data / "bn_inception.safetensors", "pt") as file:
        return {key: file.get_tensor(key) for key in file.keys()}, file.metadata()  # noqa: SIM118


@pytest.fixture(scope="module")
def published(golden: tuple[dict[str, Tensor], dict[str, str]]) -> dict[str, Tensor]:
    """The weights that made the golden values: seeded draws, by the rule in the file."""
    _, metadata = golden
    shapes = json.loads(metadata["shapes"])
    state = {}
    for key, index in json.loads(metadata["indices"]).items():
        if key.startswith("last_linear.") or key.endswith(".num_batches_tracked"):
            continue
        shape = shapes[key]
        draw = torch.randn(shape, generator=torch.Generator().manual_seed(index))
        if len(shape) == 4:
            state[key] = draw * math.sqrt(2 / math.prod(shape[1:]))
        elif key.endswith(".running_var"):
            state[key] = 1 + 0.3 * draw.abs()
        elif key.endswith(".weight"):
            state[key] = 1 + 0.1 * draw
        else:
            state[key] = 0.1 * draw
    return state


@pytest.fixture(scope="module")
def model(published: dict[str, Tensor]) -> BNInception:
    model = BNInception()
    load_tsn(model, published)
    return model


def snapshot(model: BNInception) -> dict[str, Tensor]:
    return {key: value.clone() for key, value in model.state_dict().items()}


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return all(torch.equal(one[key], other[key]) for key in one)


def test_names_and_shapes_are_the_published_ones(golden: tuple[dict[str, Tensor], dict[str, str]]) -> None:
    _, metadata = golden
    shapes = {key: shape for key, shape in json.loads(metadata["shapes"]).items() if "last_linear" not in key}
    assert {key: list(value.shape) for key, value in BNInception().state_dict().items()} == shapes


@torch.no_grad()
def test_map_equals_the_published_network(model: BNInception, golden: tuple[dict[str, Tensor], dict[str, str]]) -> None:
    tensors, _ = golden
    maps = model.features(tensors["input"])
    assert maps.shape == tensors["map"].shape
    assert_near(maps, tensors["map"])
    assert (maps - tensors["map"]).abs().max() / tensors["map"].abs().max() < 1e-4
    assert_near(maps.mean(dim=(2, 3)), tensors["pooled"])


def test_native_size(model: BNInception, golden: tuple[dict[str, Tensor], dict[str, str]]) -> None:
    assert model.native_size == (256, 454)
    maps = model(torch.zeros(1, 3, *model.native_size, dtype=torch.uint8))
    assert list(maps.shape) == json.loads(golden[1]["map_shape_at_256x454"]) == [1, 1024, 8, 14]
    assert model.output_size(*model.native_size) == (8, 14)


@torch.no_grad()
def test_an_odd_map_gets_one_more_window(model: BNInception) -> None:
    x = torch.rand(1, 320, 6, 9, generator=torch.Generator().manual_seed(0))
    passed = model._inception("inception_3c", x, bn_inception._BLOCKS["3c"])[:, -320:]
    assert passed.shape == (1, 320, 3, 5)
    assert torch.equal(passed[..., :4], F.max_pool2d(x, 3, stride=2, ceil_mode=True))
    assert torch.equal(passed[..., :2, 4], F.max_pool2d(x[..., 8:], (3, 1), stride=2)[..., 0])


def test_preprocess_is_bgr_minus_mean_on_0_to_255() -> None:
    red, green, blue = 10, 20, 255
    frames = torch.tensor([red, green, blue], dtype=torch.uint8).view(1, 3, 1, 1)
    out = BNInception().preprocess(frames).flatten().tolist()
    assert out == [blue - 104, green - 117, red - 128]


@pytest.mark.parametrize("side", [1, 6])
def test_too_small_frames(model: BNInception, side: int) -> None:
    with pytest.raises(InputError, match="at least 7 x 7"):
        model(torch.zeros(1, 3, 32, side))
    assert model(torch.zeros(1, 3, 7, 7)).shape == (1, 1024, 1, 1)


@pytest.mark.parametrize("prefix", [PREFIX, "base_model.", ""])
def test_load_tsn_accepts_the_classifier_of_rulstms_file(prefix: str, published: dict[str, Tensor]) -> None:
    model = BNInception()
    load_tsn(
        model,
        {prefix + key: value for key, value in published.items()}
        | {"module.new_fc.weight": torch.zeros(2513, 1024), "module.new_fc.bias": torch.zeros(2513)}
        | {prefix + "last_linear.weight": torch.zeros(1000, 1024)},
    )
    assert same(published, model.state_dict())
    assert not model.training


def test_load_tsn_warns_about_unknown_keys(published: dict[str, Tensor]) -> None:
    """As RULSTM's own script, which loads with strict=False."""
    model = BNInception()
    extra = {PREFIX + "inception_6a_1x1.weight": torch.zeros(1), "module.consensus.alpha": 0.5}
    state = {PREFIX + key: value for key, value in published.items()} | extra
    with pytest.warns(UserWarning, match=r"ignored unknown parameters inception_6a_1x1\.weight, consensus\.alpha$"):
        load_tsn(model, state)
    assert same(published, model.state_dict())


def test_checkpoints_with_other_entries_are_read(published: dict[str, Tensor], tmp_path: Path) -> None:
    file = tmp_path / "TSN-rgb.pth.tar"
    key = "conv1_7x7_s2.bias"
    state = {PREFIX + key: published[key]}
    torch.save({"epoch": 80, "arch": "BNInception", "best_prec1": np.float64(31.2), "state_dict": state}, file)
    assert torch.equal(read_tsn(file)[PREFIX + key], published[key])
    torch.save(state, file)
    assert list(read_tsn(file)) == [PREFIX + key]


class Unsafe:
    def __reduce__(self) -> tuple[Any, ...]:
        return print, ("run",)


def test_unreadable_files_raise_with_a_remedy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "TSN-rgb.pth.tar"
    with pytest.raises(CheckpointError, match=r"there is no such file"):
        read_tsn(file)
    torch.save({"state_dict": {"a": torch.zeros(2)}}, file)
    whole = file.read_bytes()
    torch.save({"state_dict": {}, "args": Unsafe()}, file)
    unsafe = file.read_bytes()
    torch.save([1, 2], file)
    listed = file.read_bytes()
    cases = {whole[: len(whole) // 2]: "damaged", b"": "damaged", b"text": "other objects|damaged"}
    cases |= {unsafe: "could run code", listed: "no state dict"}
    for content, message in cases.items():
        file.write_bytes(content)
        with pytest.raises(CheckpointError, match=message) as error:
            read_tsn(file)
        assert str(file) in str(error.value)
        assert "torch.serialization" not in str(error.value)  # no advice of torch's own
    assert "run" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("value", "message"),
    [(None, "missing key"), (torch.zeros(2, 2), r"shape \(2, 2\), expected \(160, 160, 3, 3\)"), ("x", "holds a str")],
)
def test_load_tsn_names_bad_keys_and_changes_nothing(published: dict[str, Tensor], value: object, message: str) -> None:
    model = BNInception()
    before = snapshot(model)
    state = {key: tensor for key, tensor in published.items() if key != SOME_KEY}
    if value is not None:
        state[SOME_KEY] = value  # type: ignore[assignment]
    with pytest.raises(CheckpointError, match=message) as error:
        load_tsn(model, state)
    assert SOME_KEY in str(error.value)
    assert same(before, model.state_dict())


def test_errors_for_the_file_of_another_network_are_short(published: dict[str, Tensor]) -> None:
    with pytest.raises(CheckpointError, match=r"and \d+ more") as error:
        load_tsn(BNInception(), {f"resnet.{key}": value for key, value in published.items()})
    assert len(str(error.value)) < 1000
