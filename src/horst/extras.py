"""Imports that can wait: names of a package until they are used, and optional packages."""

import importlib
import sys
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Any

from horst.errors import MissingExtraError

_TORCHVISION_OPERATORS: list[Any] = []  # declarations last as long as this list holds them


def lazy_names(package: str, names: Mapping[str, str], modules: Collection[str] = ()) -> Callable[[str], Any]:
    """The `__getattr__` of a package, for `names` (and the modules that define them) and for `modules` themselves."""

    def get(name: str) -> Any:
        if name in names:
            return getattr(importlib.import_module(f"{package}.{names[name]}"), name)
        if name in modules:
            return importlib.import_module(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return get


def require(module: str, extra: str) -> Any:
    """Import an optional package. MissingExtraError, with the command that installs it, if it is missing."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        name = (error.name or module).partition(".")[0]
        reason = "is missing" if isinstance(error, ModuleNotFoundError) else f"cannot be imported ({error})"
        raise MissingExtraError(f"the package {name} {reason}: pip install 'horst-video[{extra}]'") from error


def import_lightning() -> Any:
    """Lightning, without transformers, which its metrics import for texts if it is installed: 0.8 s of CPU time."""
    with suppress(ModuleNotFoundError):
        import_torchvision()  # before Lightning's metrics, which import it if it is installed
    try:
        from lightning_utilities.core.imports import RequirementCache
    except ImportError:  # a part of Lightning
        return require("lightning", "train")
    installed = RequirementCache.__bool__

    def answer(package: RequirementCache) -> bool:
        return not (package.requirement or "").startswith("transformers") and installed(package)

    RequirementCache.__bool__ = answer  # type: ignore[assignment, method-assign]
    try:
        return require("lightning", "train")
    finally:
        RequirementCache.__bool__ = installed  # type: ignore[method-assign]


def import_torchvision() -> Any:
    """torchvision, even if its compiled operators are missing, as in PyPI's wheel beside a CPU build of torch.

    Its import then fails because it describes two of them. timm and Lightning call neither: declaring them is enough.
    """
    try:
        return importlib.import_module("torchvision")
    except RuntimeError as error:
        if "torchvision::nms" not in str(error):
            raise
    import torch

    for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
        del sys.modules[name]
    if not _TORCHVISION_OPERATORS:
        library = torch.library.Library("torchvision", "DEF")
        _TORCHVISION_OPERATORS.append(library)
        for operator in ("nms", "qnms"):
            library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return importlib.import_module("torchvision")
