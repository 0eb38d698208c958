"""Whole models: the predictor, the registry of names, and saved folders."""

from horst.models.batched_step import BatchedStep
from horst.models.checkpoint import load, save
from horst.models.opening import open_model
from horst.models.predictor import Predictor, PredictorConfig, PredictorOutput
from horst.models.pretrained import load_pretrained, pretrained
from horst.models.registry import MODELS, create_model, model_config

__all__ = [
    "MODELS",
    "BatchedStep",
    "Predictor",
    "PredictorConfig",
    "PredictorOutput",
    "create_model",
    "load",
    "load_pretrained",
    "model_config",
    "open_model",
    "pretrained",
    "save",
]
