"""Models and methods by name: what a name means, what is listed, and how one's own is added."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import horst
from horst.errors import ConfigError
from horst.evaluation.paper import paper_table
from horst.models import METHODS, MODELS, Predictor, PredictorConfig, create_model, list_methods, model_config
from horst.models.methods.lstm import LSTMConfig
from horst.models.registry import PRETRAINED, SIZES, anticipation, register_method

GOLDEN: dict[str, Any] = json.loads((Path(__file__).parents[1] / "goldens" / "models.json").read_text())
SMALL: dict[str, Any] = {"backbone": {"name": "stem", "widths": [6, 8]}, "size": (24, 32)}


@pytest.mark.parametrize("name", GOLDEN)
def test_a_name_keeps_its_meaning(name: str) -> None:
    config = model_config(name)
    assert json.loads(json.dumps(config.to_dict())) == GOLDEN[name]
    assert PredictorConfig.from_dict(GOLDEN[name]) == config


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_every_method_is_complete(method: horst.models.Method) -> None:
    assert set(method.models) == set(SIZES[method.task])
    for size in method.models:
        config = method.config(size)
        assert horst.heads.HEADS[config.head.name].task == method.task
    for table, row in method.rows.items():
        assert paper_table(table).row(row)
    assert method.title
    assert method.idea
    assert 1990 < method.year < 2100
    with pytest.raises(ConfigError, match="has models for"):
        method.model_name("imagenet")


def test_methods_are_listed_by_task_and_year() -> None:
    listed = list_methods()
    assert sorted(method.name for method in listed) == sorted(METHODS)
    others = [method for method in list_methods("recognition") if not method.module.endswith(".horst")]
    assert [method.year for method in others] == sorted(method.year for method in others)
    assert listed[-1].name == "horst_url"


def test_wrong_methods_are_refused() -> None:
    def recognition_only(size: str) -> PredictorConfig:
        return model_config("horst_tiny")

    card: dict[str, Any] = {"title": "X", "idea": "an idea", "reference": "Somebody 2020"}
    with pytest.raises(ConfigError, match="choose from recognition, anticipation"):
        register_method("x", task="recog", **card)(recognition_only)
    with pytest.raises(ConfigError, match=r"card of method 'x'.*titel"):
        register_method("x", task="recognition", **card, titel="X")(recognition_only)
    with pytest.raises(ConfigError, match="has no year"):
        register_method("x", task="recognition", **{**card, "reference": "Somebody"})(recognition_only)
    conv_lstm: Any = MODELS["conv_lstm_tiny"]
    with pytest.raises(ConfigError, match="'conv_lstm_tiny' already: write one function per task"):
        register_method("x", task="anticipation", **card)(conv_lstm.func)
    assert "x" not in METHODS


def test_list_models() -> None:
    assert horst.list_models("*conv*ssv2") == ["conv_lstm_ssv2", "conv_tt_lstm_ssv2"]
    assert horst.list_models() == sorted(MODELS)
    assert horst.list_models(pretrained=True) == ["horst_tiny", "horst_tiny_anticipation"]


def test_pretrained_models_are_opened_and_get_a_new_classifier() -> None:
    model, whole = create_model("horst_tiny", pretrained=True), horst.open_model("somethings")
    assert model.labels == whole.labels
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), whole.parameters(), strict=True))
    other = create_model("horst_tiny", pretrained=True, num_classes=5)
    assert (other.num_classes, other.labels, other.training) == (5, None, False)
    assert torch.equal(next(other.core.parameters()), next(whole.core.parameters()))
    named = create_model("horst_tiny", pretrained=True, labels={"action": ["up", "down"]})
    assert named.labels == {"action": ["up", "down"]}
    with pytest.raises(ConfigError, match=r"no weights for 'rulstm_tiny'.*There are weights for: horst_tiny"):
        create_model("rulstm_tiny", pretrained=True)
    with pytest.raises(ConfigError, match="no option 'order'"):
        create_model("horst_tiny", pretrained=True, order=3)


@pytest.mark.parametrize("name", [name for name in MODELS if "tiny" in name])
def test_the_classifier_of_every_model_can_be_reset(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = create_model(name, **SMALL).eval()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    model.reset_classifier(["left", "right", "up"])
    assert (model.num_classes, model.labels) == (3, {"action": ["left", "right", "up"]})
    frames = torch.randint(0, 256, (1, 2, 3, 24, 32), dtype=torch.uint8)
    with torch.inference_mode():
        out, _ = model(frames, **({"unroll": 2} if model.head.unrolls else {}))
    assert out.logits.action.shape[-1] == 3
    kept = [key for key in model.state_dict() if key.split(".")[1] not in model.head.classifiers]
    assert all(torch.equal(model.state_dict()[key], before[key]) for key in kept)
    assert Predictor.from_pretrained(model.save_pretrained(tmp_path / "model")).labels == model.labels


def test_verbs_and_nouns_are_reset_with_the_actions() -> None:
    model = create_model("horst_tiny_anticipation", **SMALL)
    labels = {"action": ["open door", "close door"], "verb": ["open", "close"], "noun": ["door"]}
    model.reset_classifier(labels)
    assert model.head.classes == {"action": 2, "verb": 2, "noun": 1}
    assert model.labels == labels
    model.reset_classifier(7)
    assert model.head.classes == {"action": 7, "verb": 2, "noun": 1}
    paired = create_model("mce_tiny", **SMALL, num_classes=2, num_verbs=2, num_nouns=1, pairs=[[0, 0], [1, 0]])
    paired.reset_classifier(3)
    assert paired.head.classes == {"action": 3}
    paired.reset_classifier(2, num_verbs=2, num_nouns=1, pairs=[[0, 0], [1, 0]])
    assert paired.head.classes == {"action": 2, "verb": 2, "noun": 1}


def test_the_old_name_of_num_classes_is_read() -> None:
    config = model_config("horst_tiny_anticipation")
    data = config.to_dict()
    data["head"]["options"]["num_actions"] = data["head"]["options"].pop("num_classes")
    assert PredictorConfig.from_dict(data) == config
    assert model_config("rulstm_tiny", num_actions=4) == model_config("rulstm_tiny", num_classes=4)


@pytest.fixture
def own_entries() -> Iterator[None]:
    """Removes what a test registers."""
    registries = (METHODS._entries, MODELS._entries, PRETRAINED)
    before = [dict(entries) for entries in registries]
    yield
    for entries, kept in zip(registries, before, strict=True):
        entries.clear()
        entries.update(kept)


def test_a_method_of_ones_own(own_entries: None) -> None:
    @register_method("mine", title="Mine", task="anticipation", reference="Me 2024, Mine", idea="a small LSTM")
    def my_lstm(size: str) -> PredictorConfig:
        return anticipation(size, LSTMConfig(in_channels=128 if size == "tiny" else 1024, hidden=8), dropout=0.0)

    assert METHODS["mine"].models == {size: f"my_lstm_{size}" for size in ("ek55", "ek100", "tiny")}
    assert METHODS["mine"] in list_methods("anticipation")
    assert create_model("my_lstm_tiny", num_classes=3).num_classes == 3
    with pytest.raises(ConfigError, match="there is a model 'horst_tiny' already"):

        @horst.register_model
        def horst_tiny() -> PredictorConfig:
            return model_config("horst_ssv2")
