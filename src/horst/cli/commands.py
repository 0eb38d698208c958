"""The commands as typed functions: signatures are the options, docstrings the help. What they do is imported on use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal


def demo(*, frames: int = 100, threads: int | None = None) -> None:
    """See it work: parity with the paper's release, and the speed of a step.

    Args:
        frames: How many frames to time.
        threads: CPU threads to use; torch's own choice by default.
    """
    from horst.cli.demo import run

    run(frames=frames, threads=threads)


def info(
    model: str,
    *,
    variant: Literal["paper", "released"] | None = None,
    size: tuple[int, int] | None = None,
    json: bool = False,
) -> None:
    """Show what a model costs: parameters, operations a frame, bytes of state, layer by layer.

    Args:
        model: Name of a model, such as horst_tiny, or the folder of a saved one.
        variant: The form of the paper or of its official release; of named models only.
        size: Height and width of the frames, such as [224,224]; the model's own by default.
        json: Print plain data instead of tables.
    """
    from horst.cli.info import run

    run(model, variant=variant, size=size, as_json=json)


COMMANDS: dict[str, Callable[..., None]] = {"demo": demo, "info": info}
