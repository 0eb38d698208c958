"""Training: one YAML file is one run, which can be killed and resumed at any time."""

from horst.training.losses import register_loss

__all__ = ["register_loss"]
