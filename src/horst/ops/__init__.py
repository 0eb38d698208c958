"""Tensor functions: the equations of the paper. `reference` is the specification, the layers run `eager`."""

from horst.ops import eager, reference
from horst.ops.reference import Attended, joint_ops, statt_ops, temporal_ops, weighing_ops

__all__ = ["Attended", "eager", "joint_ops", "reference", "statt_ops", "temporal_ops", "weighing_ops"]
