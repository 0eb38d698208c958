"""Load weights into a module. If some do not fit, nothing is changed and the error names them."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from horst.errors import CheckpointError, did_you_mean

_SHOWN = 3


def load_checked(module: nn.Module, state: Mapping[str, Tensor], *, source: str) -> None:
    """Copy `state` into `module`, if it fits."""
    check_fit(module, state, source=source)
    module.load_state_dict(dict(state), strict=False)


def check_fit(module: nn.Module, state: Mapping[str, Tensor], *, source: str) -> None:
    """CheckpointError for weights with other names, shapes or dtypes than the module's, or with NaN or infinity.

    Only BatchNorm's `num_batches_tracked` may be missing: old weights do not have it, and evaluation does not use it.
    """
    own = module.state_dict()
    unknown = [key for key in state if key not in own]
    missing = [key for key in own if key not in state and not key.endswith(".num_batches_tracked")]
    # close matches are slow, and the file of another model has hundreds of keys: only for those shown
    problems = [f"unknown key {key!r}{did_you_mean(key, own)}" for key in unknown[:_SHOWN]]
    problems += [f"missing key {key!r}{did_you_mean(key, unknown)}" for key in missing[:_SHOWN]]
    misfits = [_misfit(key, state[key], own[key]) for key in own if key in state]
    problems += [misfit for misfit in misfits if misfit]
    if problems:
        count = len(unknown) + len(missing) + sum(map(bool, misfits))
        more = f"; and {count - _SHOWN} more" if count > _SHOWN else ""
        raise CheckpointError(f"{source} does not fit {type(module).__name__}: {'; '.join(problems[:_SHOWN])}{more}")


def _misfit(key: str, given: object, expected: Tensor) -> str:
    if not isinstance(given, Tensor):
        return f"key {key!r} holds a {type(given).__name__}, not a tensor"
    if given.shape != expected.shape:
        return f"key {key!r} has shape {tuple(given.shape)}, expected {tuple(expected.shape)}"
    if given.is_floating_point() != expected.is_floating_point():
        return f"key {key!r} is {given.dtype}, expected {expected.dtype}"
    if given.is_floating_point() and not torch.isfinite(given).all():
        return f"key {key!r} holds NaN or infinity: the run that wrote it diverged"
    return ""
