"""HORST: recurrent layers that attend to their past states in space and time.

Each layer keeps keys and values of its last S = 8 frames. The query of a new frame weighs them by two factors, one for
time and one for space:

    STATT(Q_t, K, V) = sum_s T(Q_t, K_{t-s}) S(Q_t, K_{t-s}) V_{t-s}     s = 1 .. S

The layers are in `horst.layers`, the heads in `horst.heads`. docs/reference/model.md has the equations.
"""

from dataclasses import replace
from functools import partial
from typing import Any

from horst.layers import HORSTConfig
from horst.models.predictor import PredictorConfig
from horst.models.registry import METHODS, MODELS, Method, recognition, register_model
from horst.registry import Part


@register_model
def horst_ssv2() -> PredictorConfig:
    """Early recognition on Something-Something v2: two strided convolutions and four HORST layers."""
    return recognition("ssv2", HORSTConfig(in_channels=128, hidden=(128, 256, 512, 512), stride=(1, 1, 2, 2)))


@register_model(pretrained="somethings")
def horst_tiny() -> PredictorConfig:
    """Early recognition on a CPU: a narrow stem and three narrow HORST layers on frames of 112 x 112."""
    return recognition("tiny", HORSTConfig(in_channels=64, hidden=(64, 64, 96), stride=(1, 2, 1)))


@register_model
def horst_ek55() -> PredictorConfig:
    """Anticipation on EPIC-Kitchens 55. BN-Inception is random until `horst.backbones.load_tsn` loads its weights."""
    return _epic((1024, 1024), num_classes=2513, num_verbs=125, num_nouns=352)


@register_model
def horst_ek100() -> PredictorConfig:
    """Anticipation on EPIC-Kitchens 100, likewise."""
    return _epic((512, 512), num_classes=3806, num_verbs=97, num_nouns=300)


@register_model
def horst_ek100_vjepa2() -> PredictorConfig:
    """horst_ek100 above the encoder of V-JEPA 2 (ViT-L, 4 s of video), random until its backbone gets `pretrained`."""
    encoder = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16}
    # 8 x 8 cells: an eighth of a kitchen's width, as the paper's maps of 8 x 14, at a quarter of the storage of 16 x 16
    backbone = Part(name="vjepa2", options={"config": encoder, "window": 16, "grid": [8, 8]})
    return replace(horst_ek100(), backbone=backbone, size=(256, 256))


@register_model(pretrained="kitchen")
def horst_tiny_anticipation() -> PredictorConfig:
    """horst_tiny for anticipation, at four frames per second."""
    options = {"num_classes": 75, "num_verbs": 14, "num_nouns": 20, "norm": "batch"}
    return replace(horst_tiny(), head=Part(name="verb_noun_action", options=options), size=(96, 168), fps=4.0)


def _epic(hidden: tuple[int, int], **classes: int) -> PredictorConfig:
    core, head = HORSTConfig(in_channels=1024, hidden=hidden), Part(name="verb_noun_action", options=classes)
    return PredictorConfig(backbone=Part(name="bn_inception"), core=core, head=head, size=(256, 454), fps=4.0)


def _unrolling(model: str) -> PredictorConfig:
    """A model with the unrolling head (HORST-url)."""
    config = MODELS[model]()
    return replace(config, head=Part(name="unrolling", options=config.head.options))


_REFERENCE = "Tai, Fiameni, Lee, Lanz 2021, Higher Order Recurrent Space-Time Transformer for Video Action Prediction"
_IDEA = "attend to the stored states of past frames"
_RECOGNITION = {"ssv2": "horst_ssv2", "tiny": "horst_tiny"}
_ANTICIPATION = {"ek55": "horst_ek55", "ek100": "horst_ek100", "tiny": "horst_tiny_anticipation"}
for _model in _ANTICIPATION.values():
    MODELS.register(f"{_model}_unroll")(partial(_unrolling, _model))
_TWO_LAYERS = {"hidden": [512, 512], "stride": [2, 2]}
_ABLATIONS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("attention", "4 x temporal", {"attention": "temporal"}),
    ("attention", "4 x spatial", {"attention": "spatial", "spatial_weight": "order"}),
    ("attention", "2 x joint space-time", {"attention": "joint", **_TWO_LAYERS}),
    ("attention", "2 x spatial-temporal", _TWO_LAYERS),
    *(("order", f"S = {order}", {"order": order}) for order in (1, 3, 12, 16)),
    ("key-value", "K from e, V from h", {"key_value": "split"}),
)


def _register(name: str, title: str, models: dict[str, str], idea: str = _IDEA, **card: Any) -> None:
    card |= {"module": __name__, "reference": _REFERENCE, "idea": idea}
    task = "recognition" if "ssv2" in models else "anticipation"
    METHODS.register(name)(Method(name=name, title=title, task=task, models=models, **card))


_register("horst", "HORST", _RECOGNITION, rows={"early-recognition": "HORST"})
for _table, _row, _options in _ABLATIONS:
    _name = _row.lower().replace(",", "").replace(" = ", "_").replace(" ", "_").replace("-", "_")
    _register(f"horst_{_name}", f"HORST, {_row}", _RECOGNITION, rows={_table: _row}, options=_options)
_register("horst_anticipation", "HORST", _ANTICIPATION, rows={"ek55": "HORST", "ek100": "HORST"})
_register(
    "horst_url",
    "HORST-url",
    {size: f"{model}_unroll" for size, model in _ANTICIPATION.items()},
    idea="HORST, then an LSTM until the action",
    rows={"ek55": "HORST-url", "ek100": "HORST-url"},
)
