"""The methods of the paper's tables: which model each is, by which loss it learns, and which row of the paper it is.

A method is a model and its loss: RL and EL are the same LSTM. Its runs are the configs <data set>/<method>; those
on synthetic videos are somethings/* and kitchen/*.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from horst.errors import ConfigError, did_you_mean

SIZES = {"recognition": ("ssv2", "tiny"), "anticipation": ("ek55", "ek100", "tiny")}
"""The data sets that models are made for; "tiny" are those that the package draws."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Method:
    """A row of the paper's tables."""

    name: str
    """Of its configs."""
    title: str
    """As the paper calls it."""
    task: str
    model: str
    """Its models are named <model>_<data set>; see `model_name`."""
    rows: Mapping[str, str] = field(default_factory=dict)
    """Its row in the tables of `horst.evaluation.paper`."""
    loss: Mapping[str, Any] = field(default_factory=dict)
    """What of a run's loss makes the method, besides the model."""
    clips: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By data set, the `steps` and `stride` of its clips where they are not those of RULSTM's protocol."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """What of the model's options makes it: the ablations of HORST."""

    def options_for(self, size: str) -> dict[str, Any]:
        """`options` for the model of a data set: layers that are counted anew are as wide there as the others."""
        width = {"hidden": [96, 96]} if size == "tiny" and "hidden" in self.options else {}
        return {**self.options, **width}

    def model_name(self, size: str) -> str:
        """Of its model for a data set; `horst.create_model` makes it."""
        if size not in SIZES[self.task]:
            raise ConfigError(f"size is {size!r}; {self.title} is there for {', '.join(SIZES[self.task])}")
        if self.model.startswith("horst"):
            next_one = "_anticipation" if (self.task, size) == ("anticipation", "tiny") else ""
            return f"horst_{size}{next_one}{self.model.removeprefix('horst')}"
        return f"{self.model}_{size}"


def _methods() -> list[Method]:
    recognition = partial(Method, task="recognition")
    anticipation = partial(Method, task="anticipation")
    early, ek55, backbones = "early-recognition", "ek55", "ek55-backbones"
    return [
        recognition(name="cnn3d", title="3D-CNN", model="cnn3d", rows={early: "3D-CNN"}),
        recognition(name="conv_lstm", title="ConvLSTM", model="conv_lstm", rows={early: "ConvLSTM"}),
        recognition(name="e3d_lstm", title="E3D-LSTM", model="e3d_lstm", rows={early: "E3D-LSTM"}),
        recognition(
            name="conv_tt_lstm", title="Conv-TT-LSTM", model="conv_tt_lstm", rows={early: "Conv-TT-LSTM (retrained)"}
        ),
        recognition(name="horst", title="HORST", model="horst", rows={early: "HORST"}),
        *_ablations(),
        anticipation(name="dmr", title="DMR", model="dmr", rows={ek55: "DMR"}, loss={"features": 1.0}),
        anticipation(name="atsn", title="ATSN", model="atsn", rows={ek55: "ATSN"}, loss={"tasks": ["verb", "noun"]}),
        anticipation(name="mce", title="MCE", model="mce", rows={ek55: "MCE"}),
        anticipation(name="vn_ce", title="VN-CE", model="atsn", rows={ek55: "VN-CE"}, loss={"tasks": ["verb", "noun"]}),
        *(
            anticipation(
                name=f"svm_top{k}",
                title=f"SVM-TOP{k}",
                model="tsn",
                rows={ek55: f"SVM-TOP{k}"},
                loss={"name": "smooth_top_k", "k": k},
            )
            for k in (3, 5)
        ),
        *(
            anticipation(
                name=f"vnmce_t{k}",
                title=f"VNMCE+T{k}",
                model="mce",
                rows={ek55: f"VNMCE+T{k}"},
                loss={"name": "truncated_top_k", "k": k},
            )
            for k in (3, 5)
        ),
        anticipation(name="lstm", title="LSTM", model="lstm"),
        anticipation(
            name="encoder_decoder", title="ED", model="encoder_decoder", rows={ek55: "ED"}, loss={"features": 1.0}
        ),
        anticipation(name="feedback", title="FN", model="feedback", rows={ek55: "FN"}),
        anticipation(name="ranking", title="RL", model="lstm", rows={ek55: "RL"}, loss={"ranking": 6.0}),
        anticipation(name="exponential", title="EL", model="lstm", rows={ek55: "EL"}, loss={"exponential": 1.0}),
        anticipation(name="rulstm", title="RU", model="rulstm", rows={ek55: "RU-RGB", "ek100": "RU-RGB"}),
        anticipation(name="action_banks", title="ActionBanks", model="action_banks", rows={backbones: "ActionBanks"}),
        anticipation(
            name="imagine_rnn",
            title="ImagineRNN",
            model="imagine_rnn",
            rows={backbones: "ImagineRNN"},
            loss={"features": 1.0, "distance": "contrastive", "temperature": 0.1},
        ),
        anticipation(
            name="avt",
            title="AVT-h",
            model="avt",
            rows={backbones: "AVT-h", "ek100": "AVT-h"},
            loss={"features": 1.0},
            clips={"ek55": {"steps": 11, "stride": 0.5}, "ek100": {"steps": 10, "stride": 1.0}},
        ),
        anticipation(name="horst_anticipation", title="HORST", model="horst", rows={ek55: "HORST", "ek100": "HORST"}),
        anticipation(
            name="horst_url", title="HORST-url", model="horst_unroll", rows={ek55: "HORST-url", "ek100": "HORST-url"}
        ),
    ]


def _ablations() -> Iterator[Method]:
    """Of HORST, Tables 2 to 4."""
    two: dict[str, Any] = {"hidden": [512, 512], "stride": [2, 2]}
    rows: tuple[tuple[str, str, dict[str, Any]], ...] = (
        ("attention", "4 x temporal", {"attention": "temporal"}),
        ("attention", "4 x spatial", {"attention": "spatial", "spatial_weight": "order"}),
        ("attention", "2 x joint space-time", {"attention": "joint", **two}),
        ("attention", "2 x spatial-temporal", two),
        *(("order", f"S = {order}", {"order": order}) for order in (1, 3, 12, 16)),
        ("key-value", "K from e, V from h", {"key_value": "split"}),
    )
    for table, row, options in rows:
        name = row.lower().replace(",", "").replace(" = ", "_").replace(" ", "_").replace("-", "_")
        yield Method(
            name=f"horst_{name}",
            title=f"HORST, {row}",
            task="recognition",
            model="horst",
            rows={table: row},
            options=options,
        )


METHODS: dict[str, Method] = {method.name: method for method in _methods()}


def method(name: str) -> Method:
    """ConfigError where there is none of that name."""
    if name not in METHODS:
        raise ConfigError(f"there is no method {name!r}{did_you_mean(name, METHODS, 'There are')}")
    return METHODS[name]
