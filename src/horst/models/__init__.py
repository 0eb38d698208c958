"""Whole models: the predictor, the models and methods by name, and saved models."""

from horst.models import methods as methods
from horst.models.batched_step import BatchedStep, StepOutput
from horst.models.checkpoint import load, save
from horst.models.fused import fuse_models
from horst.models.hub import open_model
from horst.models.predictor import Predictor, PredictorConfig, PredictorOutput
from horst.models.registry import METHODS, MODELS, Method, create_model, list_methods, list_models, model_config
from horst.models.registry import register_method as register_method
from horst.models.registry import register_model as register_model
from horst.places import pretrained_models

__all__ = [
    "METHODS",
    "MODELS",
    "BatchedStep",
    "Method",
    "Predictor",
    "PredictorConfig",
    "PredictorOutput",
    "StepOutput",
    "create_model",
    "fuse_models",
    "list_methods",
    "list_models",
    "load",
    "model_config",
    "open_model",
    "pretrained_models",
    "save",
]
