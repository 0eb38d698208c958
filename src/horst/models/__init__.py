"""Whole models: the predictor, the registry of names, and saved folders."""

from horst.models.batched_step import BatchedStep
from horst.models.checkpoint import load, save
from horst.models.hub import open_model, pretrained_models
from horst.models.predictor import Predictor, PredictorConfig, PredictorOutput
from horst.models.registry import MODELS, create_model, model_config

__all__ = [
    "MODELS",
    "BatchedStep",
    "Predictor",
    "PredictorConfig",
    "PredictorOutput",
    "create_model",
    "load",
    "model_config",
    "open_model",
    "pretrained_models",
    "save",
]
