"""Evaluate a model on a split of a data set.

    evaluation = evaluate(model, Clips(DataConfig.from_file("data.yaml"), batch_size=8))
    evaluation.metrics["area"]
    evaluation.save("val.json")

One pass over each clip gives the predictions at every position: a model is causal, so its logits at a frame are those
that it would give if the clip ended there. In a distributed run each process takes its share and all get the whole.

Where the data do not say which size and rate its clips have, they are shown as the model was made for.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, asdict, dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import nn
from torch.utils.data import DataLoader

import horst
from horst.config import check_positive
from horst.console import Console
from horst.console import progress as progress_bar
from horst.data.batches import UNKNOWN, Batch, ClipDataset, collate
from horst.data.buckets import EvaluationSampler, clip_lengths
from horst.data.clips import ClipConfig
from horst.data.config import DataConfig, Source, open_source
from horst.data.example import Annotations, Split, Task
from horst.data.resident import Resident, ResidentLoader
from horst.errors import ConfigError, DataError, did_you_mean
from horst.evaluation.gather import place
from horst.evaluation.guard import check
from horst.evaluation.measure import left_out, measure, prior, unmeasured
from horst.evaluation.predictions import Collector, Predictions
from horst.heads import Logits
from horst.io import read_json, write_text
from horst.models import Predictor


class Loading(Protocol):
    """What evaluation asks of the data; `ClipDataModule` has it too."""

    data: DataConfig
    batch_size: int
    workers: int
    seed: int

    @property
    def source(self) -> Source: ...

    @property
    def decoded(self) -> Mapping[Split, Resident]: ...

    @property
    def annotations(self) -> Annotations: ...


@dataclass
class Clips:
    """A data set to evaluate on."""

    data: DataConfig
    batch_size: int = 8
    workers: int = 0
    seed: int = 0
    opened: Source | None = None
    """The data set, where somebody has opened it before."""
    decoded: Mapping[Split, Resident] = field(default_factory=dict)
    """The splits whose clips somebody has read before."""

    def __post_init__(self) -> None:
        check_positive(batch_size=self.batch_size)
        if type(self.workers) is not int or self.workers < 0:
            raise ConfigError(f"workers is {self.workers!r}; it takes a whole number from 0 on")

    @cached_property
    def source(self) -> Source:
        return self.opened or open_source(self.data)

    @property
    def annotations(self) -> Annotations:
        return self.source.annotations


@dataclass(frozen=True, kw_only=True, slots=True)
class Evaluation:
    """How good a model is on a split, and by which protocol: plain data."""

    data: str
    split: Split
    task: Task
    counts: dict[str, int]
    """examples; read and missing (could not be read: misses); left_out (of every denominator, by the protocol);
    unlabelled (left out too); train, the training examples of the data set."""
    protocol: dict[str, Any]
    """mode; leaks and unobserved, examples by position; fractions or taus; size and fps, what was shown; where it
    differs made_for, the size and fps of the model."""
    metrics: dict[str, float]
    """See `measure`."""
    classes: dict[str, int] = field(default_factory=dict)
    """How many there are, by task."""
    unmeasured: dict[str, str] = field(default_factory=dict)
    """Metrics of the protocol that could not be computed, and why."""
    prior: dict[str, float] = field(default_factory=dict)
    """What always saying the most frequent training classes gives."""
    missing: list[list[str]] = field(default_factory=list)
    """[id, why] of what could not be read."""
    seconds: float = 0.0
    version: str = horst.__version__
    """Of the package that evaluated."""
    weights: str = ""
    """Of the model that was evaluated: its `fingerprint`."""
    notices: list[str] = field(default_factory=list)
    """What the data set lacks, and which metrics are missing for it."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Any) -> Evaluation:
        known = [f.name for f in fields(cls)]
        if not isinstance(data, dict):
            raise DataError(f"an evaluation is a mapping of {', '.join(known)}; got a {type(data).__name__}")
        for name in data:
            if name not in known:
                raise DataError(f"an evaluation has no entry {name!r}{did_you_mean(name, known)}")
        lacking = [f.name for f in fields(cls) if f.default is MISSING and f.default_factory is MISSING]
        lacking = [name for name in lacking if name not in data]
        if lacking:
            raise DataError(f"it is no evaluation: it lacks {', '.join(lacking)}")
        made = cls(**data)
        for name in ("counts", "protocol", "metrics", "classes", "unmeasured", "prior"):
            if not isinstance(getattr(made, name), dict):
                raise DataError(f"its {name} is a {type(getattr(made, name)).__name__}, not a mapping")
        for name in ("metrics", "prior", "counts"):
            for key, value in getattr(made, name).items():
                if type(value) not in (int, float):
                    raise DataError(f"its {name} has {key} = {value!r}, which is not a number")
        return made

    def save(self, path: str | Path) -> None:
        """As JSON, whole or not at all."""
        write_text(Path(path), json.dumps(self.to_dict(), indent=1, ensure_ascii=False) + "\n")

    @classmethod
    def load(cls, path: str | Path) -> Evaluation:
        """DataError where the file is missing, damaged, or no evaluation."""
        path = Path(path)
        try:
            return cls.from_dict(read_json(path))
        except DataError as error:
            said = f"{path}: {error}" if str(path) not in str(error) else str(error)
            raise DataError(f"{said}; evaluate again" if path.exists() else said) from error


def evaluate(
    model: Predictor,
    module: Loading,
    split: Split = "val",
    device: torch.device | str | None = None,
    *,
    autocast: torch.dtype | None = None,
    progress: bool = True,
) -> Evaluation:
    """What `predict` and `assess` give together."""
    begin = time.perf_counter()
    predictions = predict(model, module, split, device, autocast=autocast, progress=progress)
    seconds = round(time.perf_counter() - begin, 3)
    return assess(predictions, module.annotations, split, shown(module, model), model=model, seconds=seconds)


def shown(module: Loading, model: Predictor) -> ClipConfig:
    """What the clips of a data set look like to a model."""
    return module.data.clip_for(size=model.size, fps=model.fps)


def predict(
    model: Predictor,
    module: Loading,
    split: Split = "val",
    device: torch.device | str | None = None,
    *,
    autocast: torch.dtype | None = None,
    progress: bool = True,
) -> Predictions:
    """What a model says of all clips of a split.

    Args:
        model: Moved to `device`, and in evaluation mode while this runs.
        module: Its data, clips, batch size and workers are used.
        split: Which clips.
        device: Where to compute; by default where the model is.
        autocast: Compute in this lower precision where torch holds that safe.
        progress: Show a bar.
    """
    where = next(model.parameters()).device if device is None else torch.device(device)
    model.to(where)
    annotations = module.annotations.split(split)
    clip = shown(module, model)
    collector = Collector(annotations, clip)
    loader = _loader(module, split, clip)
    replicas, rank = place()
    console = Console(stderr=True)  # what a command prints stays clean of it
    shown_bar = progress and rank == 0 and console.is_terminal
    bar = progress_bar(console=console, transient=True, disable=not shown_bar)
    with evaluating(model), torch.inference_mode(), bar:
        job = bar.add_task(f"{annotations.name}, {split}", total=len(annotations.examples))
        for batch in loader:
            collector.add(batch, _logits(model, batch.to(where), annotations.task, autocast))
            bar.advance(job, replicas * (len(batch) + len(batch.bad)))
    return collector.predictions()


def assess(
    predictions: Predictions,
    annotations: Annotations,
    split: Split,
    clip: ClipConfig,
    *,
    model: Predictor | None = None,
    seconds: float = 0.0,
) -> Evaluation:
    """Metrics of predictions, once they are known to have seen no more than they may.

    Args:
        predictions: Of one split.
        annotations: Of the whole data set: the prior comes from its training split.
        split: Which one it was.
        clip: How clips were shown.
        model: Whose predictions they are: the evaluation then tells where it was made for other clips.
        seconds: That it took to predict.
    """
    anticipation = predictions.task == "anticipation"
    leaks = check(predictions, clip.mode if anticipation else "strict")
    nothing = (predictions.last_seen == -torch.inf) & predictions.read[:, None]
    unobserved = {
        name: count for name, count in zip(predictions.names(), nothing.sum(0).tolist(), strict=True) if count
    }
    frames = {"size": list(clip.size), "fps": float(1 / clip.stride if anticipation else clip.fps)}
    made_for = {"size": list(model.size), "fps": float(model.fps)} if model is not None else {}
    return Evaluation(
        data=annotations.name,
        split=split,
        task=predictions.task,
        counts={
            "examples": len(predictions),
            "read": int(predictions.read.sum()),
            "missing": int((~predictions.read).sum()),
            "left_out": int(left_out(predictions, annotations).sum()),
            "unlabelled": int((predictions.labels["action"] == UNKNOWN).sum()),
            "train": annotations.counts().get("train", 0),
        },
        protocol={
            "mode": clip.mode if anticipation else "prefix",
            "leaks": leaks,
            "unobserved": unobserved,
            "taus" if anticipation else "fractions": list(predictions.positions),
            **frames,
            **({"made_for": made_for} if model is not None and made_for != frames else {}),
        },
        metrics=measure(predictions, annotations),
        unmeasured=unmeasured(predictions, annotations),
        classes={task: len(names) for task, names in annotations.classes.items()},
        prior=prior(annotations, split),
        missing=[list(entry) for entry in predictions.missing],
        seconds=seconds,
        weights=fingerprint(model) if model is not None else "",
        notices=list(annotations.notices),
    )


def fingerprint(model: nn.Module) -> str:
    """Tells weights apart: predictions are those of a model where it has the same one."""
    found = hashlib.sha256()
    for name, value in model.state_dict().items():
        found.update(name.encode())
        found.update(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return found.hexdigest()[:16]


def _loader(module: Loading, split: Split, clip: ClipConfig) -> DataLoader[Any] | ResidentLoader:
    """This process's share. The module's own loader knows of other processes only while a trainer runs."""
    replicas, rank = place()
    lengths = clip_lengths(module.source, split, clip)
    sampler = EvaluationSampler(lengths, module.batch_size, replicas=replicas, rank=rank)
    decoded = module.decoded.get(split)
    if decoded is not None and decoded.dataset.config == clip:
        return ResidentLoader(decoded, sampler)
    return DataLoader(
        ClipDataset(module.source, split, clip),
        batch_sampler=sampler,
        num_workers=module.workers,
        collate_fn=collate,
        pin_memory=torch.cuda.is_available(),
        generator=torch.Generator().manual_seed(module.seed),  # else it draws from the model's
    )


def _logits(model: Predictor, batch: Batch, task: Task, autocast: torch.dtype | None) -> Logits:
    if not len(batch):
        return Logits(batch.frames)  # nobody looks
    options = {}
    if task == "anticipation" and model.head.unrolls:
        # How far off the action is follows from the clip, which may be shorter than what the head was made for.
        options["unroll"] = list(range(batch.frames.shape[1], 0, -1))
    with torch.autocast(batch.frames.device.type, autocast, enabled=autocast is not None):
        return model(batch.frames, lengths=batch.lengths, **options)[0].logits


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode for a while; parts that were frozen in it stay so after."""
    modes = {part: part.training for part in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for part, training in modes.items():
            part.training = training
