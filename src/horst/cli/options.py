"""Types of options that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from horst.errors import ConfigError, did_you_mean

if TYPE_CHECKING:
    from horst.cluster import RayLauncher

Source = Annotated[str | Path, Parameter(metavar="NAME|PATH")]
"""A name, an address or a path, always given as text. `Path` is there for the completion of files."""
Model = Annotated[
    Source, Parameter(help="A run, a saved model, hf://user/name, s3://..., or a packaged model: kitchen.")
]
Evaluated = Annotated[Source, Parameter(help="A run's folder or address; with --data also any other model.")]
EvaluatedData = Annotated[Path | None, Parameter(help="A data set's YAML file; the run's own data by default.")]
Output = Annotated[Path, Parameter(help="Output folder; a run that was stopped continues.")]
RunFolder = Annotated[str | Path, Parameter(metavar="PATH|URL")]
Flag = Annotated[bool, Parameter(show_default=False)]
Json = Annotated[bool, Parameter(name="--json", show_default=False, help="Print JSON instead of tables.")]
Names = Annotated[tuple[str, ...], Parameter(consume_multiple=1, show_default=False)]
Numbers = Annotated[tuple[int, ...], Parameter(consume_multiple=1, show_default=False)]
Device = Annotated[str, Parameter(help="auto, cpu, cuda, cuda:1, ...")]
Processes = Annotated[int | None, Parameter(help="Number of processes; all cores by default.")]
Ray = Annotated[
    str | None, Parameter(help="Run on a Ray cluster: auto, or the address of its head, such as 10.0.0.1:6379.")
]
Cpus = Annotated[float, Parameter(help="With --ray: CPUs, and threads, of each task.")]
Gpus = Annotated[
    float | None,
    Parameter(help="With --ray: GPUs of each task, such as 0.25; by default 1 if the cluster has any."),
]
_ENTRY = "Any entry of the config, such as --trainer.epochs 3 --seed 1."
Entry = Annotated[str, Parameter(name="--ENTRY", metavar="VALUE", allow_repeating=True, help=_ENTRY)]


def ray_launcher(address: str | None, cpus: float, gpus: float | None) -> RayLauncher | None:
    """The launcher of --ray, --cpus and --gpus; None without --ray."""
    if address is None:
        if cpus != 1 or gpus is not None:
            raise ConfigError("--cpus and --gpus are for tasks of a Ray cluster: give --ray auto or its address too")
        return None
    from horst.cluster import RayLauncher

    return RayLauncher(address, cpus=cpus, gpus=gpus)


def overrides(command: Callable[..., Any], given: Sequence[str], entries: dict[str, str]) -> list[str]:
    """The values of `--set key=value` and of `--key value`, as key=value. A mistyped option ends up among them."""
    from horst.configs.run_file import ENTRIES

    options = [name for name, one in signature(command).parameters.items() if one.kind is one.KEYWORD_ONLY]
    for name in entries:
        if name.partition(".")[0] not in ENTRIES:
            close = did_you_mean(name, [*ENTRIES, *options]) or _same_last_part(name)
            raise ConfigError(f"there is no option --{name}, and no such entry of a run{close}")
    return [*given, *(f"{name}={value}" for name, value in entries.items())]


def _same_last_part(name: str) -> str:
    """The end of a message that suggests --trainer.epochs for --epochs."""
    from horst.training.config import entry_names  # imports torch, which takes seconds

    same = [f"--{key}" for key in entry_names() if key.rpartition(".")[2] == name.rpartition(".")[2]]
    return f", did you mean {' or '.join(same)}?" if same else ""
