"""Evaluate a model on a split of a data set.

    evaluation = evaluate(model, ClipBatches(DataConfig.from_file("data.yaml"), batch_size=8))
    evaluation.metrics["area"]
    evaluation.save("val.json")

One forward pass over each clip gives the predictions at every position: a model is causal, so its logits at a frame are
those that it would give if the clip ended there. In a distributed run each process evaluates its share of the clips,
and every process gets the complete result. Clips have the frame size and rate of the data config, or else of the model.
"""

import hashlib
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn

import horst
from horst.config import from_dict
from horst.console import Console
from horst.console import progress as progress_bar
from horst.data.clips import ClipConfig
from horst.data.example import UNKNOWN, Annotations, Split, Task
from horst.data.folds import example_groups
from horst.data.loader import ClipBatches, world_and_rank
from horst.data.segments import evaluated, horizons
from horst.errors import ConfigError, DataError, with_file
from horst.evaluation.detection import FrameCollector, collector
from horst.evaluation.guard import count_leaks
from horst.evaluation.measure import left_out, measure, prior, unmeasured
from horst.evaluation.predictions import Collector, Predictions, position_name
from horst.evaluation.sequences import sequence_prior
from horst.heads.unrolling import clip_horizons
from horst.io import read_json, write_text
from horst.models import Predictor
from horst.models.predictor import PredictorOutput


@dataclass(frozen=True, kw_only=True, slots=True)
class Evaluation:
    """The metrics of a model on a split, and the protocol that they follow. Saved as JSON."""

    data: str  # name of the data set
    split: Split
    task: Task
    counts: dict[str, int]
    """examples; read and missing (unreadable: misses); left_out (of every denominator, by the protocol); unlabelled
    (left out too); train, the number of training examples."""
    protocol: dict[str, Any]
    """mode; leaks and unobserved, numbers of examples by position; fractions or taus; size and fps of the clips;
    made_for, the size and fps of the model if they differ."""
    metrics: dict[str, float]  # see `horst.evaluation.measure`
    classes: dict[str, int] = field(default_factory=dict)  # number of classes by task
    unmeasured: dict[str, str] = field(default_factory=dict)  # metrics that could not be computed, and why
    prior: dict[str, float] = field(default_factory=dict)  # always predicting the most frequent training classes
    missing: list[list[str]] = field(default_factory=list)  # [id, reason] of unreadable examples
    seconds: float = 0.0
    version: str = horst.__version__  # of the package that evaluated
    weights: str = ""  # the `fingerprint` of the model
    notices: list[str] = field(default_factory=list)  # what the data set lacks, and which metrics need it

    @property
    def positions(self) -> list[float]:
        """Observed fractions, or seconds before the action."""
        return self.protocol.get("fractions" if self.task == "recognition" else "taus") or []

    @property
    def position_names(self) -> list[str]:
        return [position_name(self.task, position) for position in self.positions]

    def save(self, path: str | Path) -> None:
        """Write JSON, atomically."""
        write_text(Path(path), json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n")

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """DataError if the file is missing, damaged, or not an evaluation."""
        path = Path(path)
        try:
            evaluation = from_dict(cls, read_json(path), "evaluation")
            for name in ("metrics", "prior", "counts"):
                for key, value in getattr(evaluation, name).items():
                    if type(value) not in (int, float):
                        raise DataError(f"evaluation.{name} has {key} = {value!r}, which is not a number")
            return evaluation
        except (ConfigError, DataError) as error:
            message = with_file(path, error)
            raise DataError(f"{message}; evaluate again" if path.exists() else message) from error


def evaluate(model: Predictor, clips: ClipBatches, split: Split = "val", **options: Any) -> Evaluation:
    """Metrics of a model on a split; options as for `predict`."""
    return predict_and_evaluate(model, clips, split, **options)[1]


def predict_and_evaluate(
    model: Predictor, clips: ClipBatches, split: Split = "val", **options: Any
) -> tuple[Predictions, Evaluation]:
    """Both the predictions and their metrics; options as for `predict`."""
    begin = time.perf_counter()
    predictions = predict(model, clips, split, **options)
    seconds = round(time.perf_counter() - begin, 3)
    clip = clip_for(clips, model)
    return predictions, evaluate_predictions(predictions, clips.annotations, split, clip, model=model, seconds=seconds)


def clip_for(clips: ClipBatches, model: Predictor) -> ClipConfig:
    """The size and rate of a data set's clips for a model."""
    return clips.data.clip_for(size=model.size, fps=model.fps)


def predict(
    model: Predictor,
    clips: ClipBatches,
    split: Split = "val",
    device: torch.device | str | None = None,
    *,
    autocast: torch.dtype | None = None,
    progress: bool = True,
) -> Predictions:
    """Predictions of a model for all clips of a split.

    The model is moved to `device`, by default it stays where it is; it is in evaluation mode while this runs.
    `autocast`: compute in this lower precision where torch considers it safe.
    """
    found = collect(model, clips, split, device, autocast=autocast, progress=progress)
    return complete(found.predictions(), clips, split)


def collect(
    model: Predictor,
    clips: ClipBatches,
    split: Split = "val",
    device: torch.device | str | None = None,
    *,
    autocast: torch.dtype | None = None,
    progress: bool = True,
    share: tuple[int, int] | None = None,
) -> Collector | FrameCollector:
    """What `predict` collects in this process. `share` (parts, part): the batches of a part instead of a process."""
    target = next(model.parameters()).device if device is None else torch.device(device)
    model.to(target)
    annotations, clip = clips.annotations.split(split), clip_for(clips, model)
    check_horizons(model, clip)
    found = collector(annotations, clip)
    replicas, rank = world_and_rank() if share is None else share
    console = Console(stderr=True)  # stdout is for results
    bar = progress_bar(console=console, transient=True, disable=not (progress and rank == 0 and console.is_terminal))
    with eval_mode(model), torch.inference_mode(), bar:
        task = bar.add_task(f"{annotations.name}, {split}", total=len(annotations.examples))
        for batch in clips.evaluation_loader(split, clip, share):
            batch = batch.to(target)
            logits = clip_output(model, batch.frames, batch.lengths, autocast).logits if len(batch) else None
            found.add(batch, logits)
            bar.advance(task, replicas * (len(batch) + len(batch.bad)))
    return found


def complete(predictions: Predictions, clips: ClipBatches, split: Split) -> Predictions:
    """The predictions with the groups of their examples."""
    if predictions.groups:  # of frames
        return predictions
    annotations = evaluated(clips.annotations.split(split))
    return replace(predictions, groups=example_groups(annotations, by_media=not clips.source.shared_media))


def check_horizons(model: Predictor, clip: ClipConfig) -> None:
    """ConfigError if a model of whole videos was trained for other horizons or sequences than the clips have."""
    if model.head.video is not None and (made := model.head.video.horizons) != (wanted := horizons(clip)):
        remedy = "set clip.steps and clip.stride"
        raise ConfigError(f"the model predicts {made} s ahead and the data has {wanted}: {remedy}")
    sequence = None if model.head.video is None else model.head.video.sequence
    if (steps := None if sequence is None else sequence.steps) != clip.sequence:
        asked = f"the model predicts {steps or 'no'} next actions and clip.sequence is {clip.sequence or 'not set'}"
        raise ConfigError(f"{asked}: {f'set it to {steps}' if steps else 'leave it out, or train a model with it'}")


def clip_output(
    model: Predictor,
    frames: Tensor,
    lengths: Tensor | None = None,
    autocast: torch.dtype | None = None,
    *,
    attention: bool = False,
) -> PredictorOutput:
    """The forward pass of evaluation and validation, over a batch of clips (B, T, 3, H, W).

    An unrolling head counts down to the end of the clips, which may be shorter than those that it was made for.
    """
    unroll = {"unroll": clip_horizons(model.head, frames.shape[1], model.fps)} if model.head.unrolls else {}
    with torch.autocast(frames.device.type, autocast) if autocast is not None else nullcontext():
        return model(frames, lengths=lengths, attention=attention, **unroll)[0]


def evaluate_predictions(
    predictions: Predictions,
    annotations: Annotations,
    split: Split,
    clip: ClipConfig,
    *,
    model: Predictor | None = None,
    seconds: float = 0.0,
) -> Evaluation:
    """Check that the predictions of a split saw no more than the protocol allows, and compute their metrics.

    The annotations are of the whole data set: the prior comes from its training split. `model` is the one that
    predicted: its fingerprint is reported, and whether it was made for other clips.
    """
    chain = sequence_prior(annotations, split, clip.sequence) if predictions.sequence is not None else {}
    annotations = evaluated(annotations)
    ahead, anticipation = predictions.task != "recognition", predictions.task == "anticipation"
    leaks = count_leaks(predictions, clip.mode if anticipation else "strict")
    unseen = (predictions.last_seen == -torch.inf) & predictions.read[:, None]
    shown = {"size": list(clip.size), "fps": float(1 / clip.stride if anticipation else clip.fps)}
    made_for = {"size": list(model.size), "fps": float(model.fps)} if model is not None else shown
    read, unlabelled = predictions.read, predictions.labels["action"] == UNKNOWN
    rows = {"read": read, "missing": ~read, "left_out": left_out(predictions, annotations), "unlabelled": unlabelled}
    counts = {"examples": len(predictions), **{name: int(found.sum()) for name, found in rows.items()}}
    mode = {"recognition": "prefix", "anticipation": clip.mode, "online": "whole videos", "detection": "frames"}[
        predictions.task
    ]
    protocol: dict[str, Any] = {"mode": mode, "leaks": leaks}
    protocol |= {"unobserved": predictions.count_by_position(unseen)}
    protocol |= {"taus" if ahead else "fractions": list(predictions.positions)}
    return Evaluation(
        data=annotations.name,
        split=split,
        task=predictions.task,
        counts=counts | {"train": annotations.counts().get("train", 0)},
        protocol=protocol | shown | ({"made_for": made_for} if made_for != shown else {}),
        metrics=measure(predictions, annotations),
        unmeasured=unmeasured(predictions, annotations),
        classes={task: len(names) for task, names in annotations.classes.items()},
        prior=prior(annotations, split) | chain,
        missing=[list(entry) for entry in predictions.missing],
        seconds=seconds,
        weights=fingerprint(model) if model is not None else "",
        notices=list(annotations.notices),
    )


def fingerprint(model: Predictor) -> str:
    """A digest of the weights and the config: two models with the same one make the same predictions.

    Some options, such as the order of HORST, have no weights.
    """
    digest = hashlib.sha256(json.dumps(model.config.to_dict(), sort_keys=True).encode())
    for name, value in model.state_dict().items():
        digest.update(name.encode())
        digest.update(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:16]


@contextmanager
def eval_mode(model: nn.Module) -> Iterator[None]:
    """Evaluation mode for a while. Each module gets its own mode back: some may be frozen in evaluation mode."""
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, training in modes.items():
            module.training = training
