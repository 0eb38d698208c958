"""`horst models`."""

from __future__ import annotations

from typing import Literal

from horst.cli.options import Json
from horst.config import Task
from horst.errors import ConfigError


def models(
    method: str | None = None,
    /,
    *,
    data: Literal["paper", "ek100", "tiny"] = "paper",
    task: Task | None = None,
    as_json: Json = False,
) -> None:
    """List the methods of the paper's tables: the model and loss of each, its costs, and the paper's results.

    Args:
        method: Name of one, such as rulstm, to see its description, models, configs and results in the paper.
        data: Models for the paper's main data sets, for EPIC-Kitchens 100, or small ones for synthetic videos.
        task: List the methods of one task.
    """
    from horst.cli.method import show_method
    from horst.cli.models_table import find_method, show_methods

    if method is None:
        show_methods(data, task, as_json)
    elif data != "paper" or task is not None:
        raise ConfigError(f"{method} is shown for all its data: leave --data and --task out")
    else:
        show_method(find_method(method), as_json)
