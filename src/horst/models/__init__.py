"""Whole models: the predictor, the registry of names, and saved folders."""

from horst.models.checkpoint import load, save
from horst.models.opening import open_model
from horst.models.predictor import Output, Predictor, PredictorConfig
from horst.models.pretrained import load_pretrained, pretrained
from horst.models.registry import MODELS, create_model, model_config
from horst.models.streams import Streams

__all__ = [
    "MODELS",
    "Output",
    "Predictor",
    "PredictorConfig",
    "Streams",
    "create_model",
    "load",
    "load_pretrained",
    "model_config",
    "open_model",
    "pretrained",
    "save",
]
