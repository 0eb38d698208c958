"""What a model says of every example of a split, and when it had seen what.

A model says something at every frame; protocols ask at some positions. For recognition a position is the fraction of
the clip that has been observed, for anticipation the time tau_a before the action. An example that could not be read
is a row too, in which nothing is predicted: no denominator ever shrinks by itself.

Shapes: N examples in the order of the annotations, P positions, C classes, T frames of the longest clip, B a batch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, get_args

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from horst.data.batches import UNKNOWN, Batch
from horst.data.clips import EPIC_FPS, ClipConfig, seen_frames
from horst.data.example import Annotations, Example, Task
from horst.errors import ConfigError, DataError, InputError
from horst.evaluation.gather import gather
from horst.heads import Logits
from horst.io import atomic_write, set_default_mode
from horst.video.sampling import observed_frames

FRACTIONS = (0.1, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
"""Recognition: what is observed where all of a clip is shown."""
EARLIEST = 2.0
"""Anticipation: seconds before the action from which on predictions count."""
FORMAT = 1


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Predictions:
    """Scores and labels of all examples of a split."""

    task: Task
    positions: tuple[float, ...]
    """(P,) observed fractions, or seconds before the action."""
    ids: tuple[str, ...]
    labels: Mapping[str, Tensor]
    """(N,) int64 by task; -1 where unknown."""
    scores: Mapping[str, Tensor]
    """(N, P, C) float32 by task: logits; -inf where nothing was seen yet, or nothing at all."""
    read: Tensor
    """(N,) bool: whether the clip could be read."""
    empty: Tensor
    """(N,) bool: anticipation of an action so early that no frame lies before it."""
    answers: Tensor
    """(N, T) int64, recognition: the action said at each frame; -1 after the end. T is 0 for anticipation."""
    lengths: Tensor
    """(N,) int64: frames of each clip; 0 where it could not be read."""
    last_seen: Tensor
    """(N, P) float64: seconds in the media of the latest frame that had been shown; -inf where none had."""
    limits: Tensor
    """(N, P) float64: the latest time that may have been seen."""
    missing: tuple[tuple[str, str], ...] = ()
    """(id, why) of the examples that could not be read."""

    def __len__(self) -> int:
        return len(self.ids)

    def names(self) -> list[str]:
        """Of the positions, as metrics are called: 25%, 0.25s."""
        return [position_name(self.task, position) for position in self.positions]

    def select(self, rows: Tensor) -> Predictions:
        """Some examples: `rows` (N,) bool."""
        chosen = rows.tolist()
        ids = tuple(ident for ident, kept in zip(self.ids, chosen, strict=True) if kept)
        some = {name: getattr(self, name)[rows] for name in TENSORS}
        return replace(
            self,
            ids=ids,
            labels={task: values[rows] for task, values in self.labels.items()},
            scores={task: values[rows] for task, values in self.scores.items()},
            missing=tuple(entry for entry in self.missing if entry[0] in set(ids)),
            **some,
        )

    def save(self, path: str | Path) -> None:
        """One safetensors file, whole or not at all."""
        path = Path(path)
        tensors = {name: getattr(self, name).contiguous() for name in TENSORS}
        for kind, values in (("labels", self.labels), ("scores", self.scores)):
            tensors |= {f"{kind}.{task}": value.contiguous() for task, value in values.items()}
        about = {"format": FORMAT} | {name: getattr(self, name) for name in PLAIN}
        with atomic_write(path) as partial:
            save_file(tensors, partial, {"predictions": json.dumps(about)})
            set_default_mode(partial)

    @classmethod
    def load(cls, path: str | Path) -> Predictions:
        try:
            with safe_open(path, "pt") as file:
                about = json.loads((file.metadata() or {})["predictions"])
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118, it is no mapping
            if about["format"] != FORMAT:
                raise ValueError(f"format is {about['format']}, not {FORMAT}")
            made = cls(
                task=about["task"],
                positions=tuple(about["positions"]),
                ids=tuple(about["ids"]),
                labels=_under("labels.", tensors),
                scores=_under("scores.", tensors),
                missing=tuple((ident, why) for ident, why in about["missing"]),
                **{name: tensors[name] for name in TENSORS},
            )
            made._check()
            return made
        except FileNotFoundError as error:
            raise DataError(f"{path}: there is no such file; `horst evaluate` writes it") from error
        except (OSError, SafetensorError, KeyError, TypeError, ValueError, AttributeError) as error:
            raise DataError(
                f"{path} is damaged, or holds no predictions of this version ({error}): evaluate again"
            ) from error

    def _check(self) -> None:
        """ValueError where its parts do not belong together."""
        count, places = len(self.ids), len(self.positions)
        tensors = {name: getattr(self, name) for name in TENSORS}
        for kind, values in (("labels", self.labels), ("scores", self.scores)):
            tensors |= {f"{kind}.{task}": values[task] for task in {"action": 0, **values}}
        if self.task not in get_args(Task):
            raise ValueError(f"the task is {self.task!r}")
        for name, tensor in tensors.items():
            rank = 3 if name.startswith("scores.") else 2 if name in ("last_seen", "limits", "answers") else 1
            wanted = (count, places)[: 1 if name == "answers" else min(rank, 2)]
            if tensor.ndim != rank or tuple(tensor.shape[: len(wanted)]) != wanted:
                raise ValueError(f"{name} has shape {tuple(tensor.shape)} for {count} examples, {places} positions")


PLAIN = ("task", "positions", "ids", "missing")
TENSORS = tuple(f.name for f in fields(Predictions) if f.name not in (*PLAIN, "labels", "scores"))


class Collector:
    """Gathers predictions batch by batch, on every process of a distributed run.

    Args:
        annotations: Of the split, in the order of its `ClipDataset`.
        config: What the clips looked like.
    """

    def __init__(self, annotations: Annotations, config: ClipConfig) -> None:
        self.annotations, self.config = annotations, config
        self.positions = positions(annotations.task, config)
        self._found: list[dict[str, Tensor]] = []
        self._bad: dict[int, str] = {}

    def add(self, batch: Batch, logits: Logits) -> None:
        """What the model says of a batch, (B, T, C) by task: logits at every frame."""
        self._bad |= {clip.index: clip.why for clip in batch.bad}
        if not len(batch):
            return
        self._check(batch, logits)
        lengths, observed = batch.lengths, batch.observed.cpu()
        columns = self._columns(lengths)  # (B, P)
        seen = batch.times.masked_fill(batch.times.isnan(), -torch.inf)
        found = {
            "index": torch.tensor(batch.indices),
            "lengths": lengths,
            "last_seen": seen.cummax(1).values.gather(1, columns),
            "limits": seen.gather(1, columns),
        }
        unobserved = ~observed.gather(1, columns)[..., None]
        for task in logits.keys():  # noqa: SIM118
            rows = columns.to(logits[task].device)[..., None].expand(-1, -1, logits[task].shape[-1])
            scores = logits[task].detach().gather(1, rows).float().cpu()
            if scores.isnan().any():
                ident = batch.ids[int(scores.isnan().flatten(1).any(1).nonzero()[0])]
                raise InputError(f"the model's {task} logits of example {ident} hold NaN")
            found[f"scores.{task}"] = scores.masked_fill(unobserved, -torch.inf)
        if self.annotations.task == "recognition":
            padding = torch.arange(observed.shape[1]) >= lengths[:, None]
            found["answers"] = logits.action.detach().argmax(-1).cpu().masked_fill(padding, -1)
        self._found.append(found)

    def predictions(self, *, complete: bool = True) -> Predictions:
        """All that was added, on any process. Every example must have come, or unless `complete` is left out."""
        gathered = gather(_joined(self._found), self._bad)
        examples, count = self.annotations.examples, len(self.positions)
        total = len(examples)
        longest = max([f["answers"].shape[1] for f, _ in gathered if "answers" in f], default=0)
        widths = {name: t.shape[-1] for f, _ in gathered for name, t in f.items() if name.startswith("scores.")}
        widths = widths or {"scores.action": len(self.annotations.classes["action"])}
        rows = {name: torch.full((total, count, width), -torch.inf) for name, width in widths.items()}
        rows["answers"] = torch.full((total, longest), -1, dtype=torch.int64)
        rows["lengths"] = torch.zeros(total, dtype=torch.int64)
        rows["last_seen"] = torch.full((total, count), -torch.inf, dtype=torch.float64)
        rows["limits"] = torch.full((total, count), torch.inf, dtype=torch.float64)
        read = torch.zeros(total, dtype=torch.bool)
        for found, _ in gathered:
            for row, index in enumerate(found["index"].tolist() if found else ()):
                if not read[index]:  # what comes twice counts as it came first
                    read[index] = True
                    for name in rows.keys() & found.keys() - {"lengths"}:
                        values = found[name][row]
                        rows[name][index, : len(values)] = values
                    rows["lengths"][index] = found["lengths"][row]
        bad = {i: why for _, theirs in gathered for i, why in theirs.items() if not read[i]}
        if self.annotations.task == "anticipation":
            rows["limits"] = self._limits(examples)
        made = Predictions(
            task=self.annotations.task,
            positions=self.positions,
            ids=tuple(example.id for example in examples),
            labels={
                task: torch.tensor([example.labels.get(task, UNKNOWN) for example in examples])
                for task in self.annotations.classes
            },
            scores=_under("scores.", rows),
            read=read,
            empty=torch.tensor([self._is_empty(example) for example in examples]) & ~read,
            missing=tuple((examples[i].id, bad[i]) for i in sorted(bad)),
            **{name: values for name, values in rows.items() if not name.startswith("scores.")},
        )
        came = read.clone()
        came[list(bad)] = True
        if complete and not came.all():
            never = [ident for ident, there in zip(made.ids, came.tolist(), strict=True) if not there]
            raise DataError(
                f"{len(never)} of {total} examples of {self.annotations.name} never came, such as {never[0]}: "
                "evaluate all of them"
            )
        return made if complete else made.select(came)

    def _check(self, batch: Batch, logits: Logits) -> None:
        examples = self.annotations.examples
        for index, ident in zip(batch.indices, batch.ids, strict=True):
            if not index < len(examples) or examples[index].id != ident:
                raise DataError(f"example {index} of the batch is {ident}, which the annotations do not have there")
        for task in logits.keys():  # noqa: SIM118
            known, shape = len(self.annotations.classes.get(task, ())), tuple(logits[task].shape)
            if shape[:-1] != tuple(batch.observed.shape):
                raise InputError(
                    f"{task} logits have shape {shape}; (B, T, C) of {tuple(batch.observed.shape)} is needed"
                )
            if shape[-1] != known:
                raise ConfigError(
                    f"the model predicts {shape[-1]} classes of {task} and {self.annotations.name} has {known}: "
                    "it is a model of other data"
                )

    def _columns(self, lengths: Tensor) -> Tensor:
        """(B, P): the frame at which each position is read off."""
        if self.annotations.task == "recognition":
            if len(self.positions) == 1:  # all that is shown
                return lengths[:, None] - 1
            return torch.tensor([[observed_frames(n, f) - 1 for f in self.positions] for n in lengths.tolist()])
        if lengths.ne(self.config.steps).any():
            raise DataError(
                f"a clip of {self.annotations.name} has {int(lengths[lengths != self.config.steps][0])} positions and "
                f"clip.steps is {self.config.steps}: set it to what the data holds"
            )
        return torch.arange(self.config.steps)[-len(self.positions) :].expand(len(lengths), -1)

    def _limits(self, examples: Sequence[Example]) -> Tensor:
        """(N, P): start - tau_a. The start is that of its frame where the annotations count frames."""
        frames = [e.start * EPIC_FPS if e.start_frame is None else e.start_frame - 1 for e in examples]
        return torch.tensor(frames, dtype=torch.float64)[:, None] / EPIC_FPS - torch.tensor(self.positions).double()

    def _is_empty(self, example: Example) -> bool:
        if self.annotations.task == "recognition":
            return False
        try:
            seen_frames(example, self.config)
        except InputError:
            return True
        return False


def positions(task: Task, config: ClipConfig) -> tuple[float, ...]:
    """Where clips like these are evaluated.

    Recognition: at FRACTIONS of a clip that is shown whole, else at the fraction that is shown. Anticipation: at every
    time from EARLIEST on.
    """
    if task == "recognition":
        return FRACTIONS if config.observe == 1 else (config.observe,)
    taus = [step * config.stride for step in range(config.steps, 0, -1)]
    return tuple(tau for tau in taus if tau <= EARLIEST + 1e-9) or (taus[-1],)


def position_name(task: Task, position: float) -> str:
    """25% for recognition, 0.25s for anticipation."""
    return f"{100 * position:g}%" if task == "recognition" else f"{position:g}s"


def _joined(found: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    """What several batches gave, as one."""
    if not found:
        return {}
    longest = max(f["answers"].shape[1] if "answers" in f else 0 for f in found)
    joined = {name: torch.cat([f[name] for f in found]) for name in found[0] if name != "answers"}
    if "answers" in found[0]:
        wide = [torch.nn.functional.pad(f["answers"], (0, longest - f["answers"].shape[1]), value=-1) for f in found]
        joined["answers"] = torch.cat(wide)
    return joined


def _under(prefix: str, tensors: Mapping[str, Any]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
