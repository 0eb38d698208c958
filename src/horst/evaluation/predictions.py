"""Predictions for a whole split: every example has a row, whether its clip could be read or not.

    collector = Collector(annotations, clip)             # of the split
    for batch in loader: collector.add(batch, logits)
    predictions = collector.predictions()
    predictions.save("val.safetensors")

Shapes: N examples, P positions, C classes, T frames of the longest clip, B clips of a batch.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self, get_args

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor
from torch.nn.functional import pad

from horst.data.batches import Batch
from horst.data.clips import EPIC_FPS, ClipConfig, nothing_precedes
from horst.data.example import UNKNOWN, Annotations, Example, Task
from horst.data.loader import gather
from horst.data.segments import evaluated, horizons, sequence_targets, target_rows
from horst.errors import ConfigError, DataError, InputError
from horst.heads import Logits
from horst.io import atomic_write, set_default_mode
from horst.masks import length_mask
from horst.video.sampling import SLACK, observed_frames

FRACTIONS = (0.1, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)  # recognition: observed parts of a complete clip
FORMAT = 1
Share = tuple[dict[str, Tensor], dict[int, str]]  # of one process: tensors, and why clips cannot be read


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Predictions:
    """Scores and labels of all examples of a split."""

    task: Task
    positions: tuple[float, ...]  # (P,) observed fractions, or seconds before the action
    ids: tuple[str, ...]
    labels: Mapping[str, Tensor]  # (N,) int64 by task; -1 if unknown
    scores: Mapping[str, Tensor]  # (N, P, C) float32 by task: logits; -inf where no frame had been observed
    read: Tensor  # (N,) bool: the clip could be read
    empty: Tensor  # (N,) bool, anticipation: the action starts so early that no frame precedes it
    answers: Tensor  # (N, T) int64: the predicted action at each frame, -1 after the end; T is 0 for anticipation
    lengths: Tensor  # (N,) int64: frames of each clip; 0 if it could not be read
    last_seen: Tensor  # (N, P) float64: time in the media of the latest frame shown so far; -inf if there was none
    limits: Tensor  # (N, P) float64: the latest time that the protocol allows
    missing: tuple[tuple[str, str], ...] = ()  # (id, reason) of unreadable examples
    groups: tuple[str, ...] = ()  # (N,) `horst.data.folds.example_groups`; empty in files of earlier versions
    sequence: Tensor | None = None  # (N, Z, C) float32, with `clip.sequence`: logits of the action and those after it
    following: Tensor | None = None  # (N, Z) int64: their labels; -1 where fewer follow, or no frame precedes
    targets: Tensor | None = None  # detection, whose examples are frames: (N, P, C) bool, what is going on

    def __len__(self) -> int:
        return len(self.ids)

    def names(self) -> list[str]:
        """Names of the positions in metrics: 25%, 0.25s."""
        return [position_name(self.task, position) for position in self.positions]

    def labels_at(self, task: str, position: int) -> Tensor:
        """(N,) labels of the examples that count at a position: online, not those without a frame until then."""
        labels = self.labels[task]
        return (
            labels.masked_fill(self.last_seen[:, position] == -torch.inf, UNKNOWN) if self.task == "online" else labels
        )

    def count_by_position(self, found: Tensor) -> dict[str, int]:
        """Examples that `found` (N, P) marks, by position name; positions without any are left out."""
        return {name: count for name, count in zip(self.names(), found.sum(0).tolist(), strict=True) if count}

    def tensors(self) -> dict[str, Tensor]:
        """All tensors by their names in the file: scores.action, labels.action, read, ..."""
        by_task = {f"{kind}.{task}": t for kind in BY_TASK for task, t in getattr(self, kind).items()}
        optional = {name: tensor for name in OPTIONAL if (tensor := getattr(self, name)) is not None}
        return {name: getattr(self, name) for name in TENSORS} | by_task | optional

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor], **plain: Any) -> Self:
        """The reverse of `tensors`; `plain` are the other fields."""
        found: dict[str, Any] = {name: tensors[name] for name in TENSORS} | {kind: {} for kind in BY_TASK}
        found |= {name: tensors.get(name) for name in OPTIONAL}
        for name, tensor in tensors.items():
            kind, _, task = name.partition(".")
            if kind in BY_TASK:
                found[kind][task] = tensor
        return cls(**found, **plain)

    def select(self, rows: Tensor) -> Self:
        """Some examples: `rows` is a mask (N,) or indices in any order."""
        chosen = torch.arange(len(self))[rows].tolist()
        ids, groups = (tuple(names[row] for row in chosen if names) for names in (self.ids, self.groups))
        kept = {*ids, *groups}  # of frames, the missing ones are videos, which are their groups
        missing = tuple(entry for entry in self.missing if entry[0] in kept)
        tensors = {name: tensor[rows] for name, tensor in self.tensors().items()}
        plain = {"task": self.task, "positions": self.positions, "ids": ids, "missing": missing, "groups": groups}
        return self.from_tensors(tensors, **plain)

    def save(self, path: str | Path) -> None:
        """Write one safetensors file, atomically."""
        metadata = {"format": FORMAT} | {name: getattr(self, name) for name in PLAIN}
        with atomic_write(Path(path)) as partial:
            tensors = {name: tensor.contiguous() for name, tensor in self.tensors().items()}
            save_file(tensors, partial, {"predictions": json.dumps(metadata)})
            set_default_mode(partial)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """DataError if the file is missing, damaged, or of another version."""
        try:
            with safe_open(path, "pt") as file:
                metadata = json.loads((file.metadata() or {})["predictions"])
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118, it is no mapping
            if metadata["format"] != FORMAT:
                raise ValueError(f"format is {metadata['format']}, not {FORMAT}")
            plain = {name: tuple(metadata[name]) for name in ("positions", "ids")}
            plain["missing"] = tuple((ident, reason) for ident, reason in metadata["missing"])
            plain["groups"] = tuple(metadata.get("groups", ()))
            predictions = cls.from_tensors(tensors, task=metadata["task"], **plain)
            predictions._check()
            return predictions
        except FileNotFoundError as error:
            raise DataError(f"{path}: there is no such file; `horst evaluate` writes it") from error
        except (OSError, SafetensorError, KeyError, TypeError, ValueError, AttributeError) as error:
            damaged = f"{path} is damaged, or holds no predictions of this version ({error})"
            raise DataError(f"{damaged}: evaluate again") from error

    def _check(self) -> None:
        """ValueError if the parts do not fit together."""
        if self.task not in get_args(Task):
            raise ValueError(f"the task is {self.task!r}")
        if "action" not in self.labels or "action" not in self.scores:
            raise ValueError("there are no labels or scores of actions")
        if (self.targets is None) == (self.task == "detection"):
            raise ValueError("predictions of frames have targets, others have none")
        if len(self.groups) not in (0, len(self.ids)):
            raise ValueError(f"{len(self.ids)} examples have {len(self.groups)} groups")
        sizes = (len(self.ids), len(self.positions))
        for name, tensor in self.tensors().items():
            rank = RANKS.get(name.partition(".")[0], 1)
            expected = sizes[: 1 if name in ("answers", "sequence", "following") else min(rank, 2)]
            if tensor.ndim != rank or tuple(tensor.shape[: len(expected)]) != expected:
                raise ValueError(f"{name} has shape {tuple(tensor.shape)} for (examples, positions) = {sizes}")


PLAIN, BY_TASK = ("task", "positions", "ids", "missing", "groups"), ("labels", "scores")
OPTIONAL = ("sequence", "following", "targets")
TENSORS = tuple(f.name for f in fields(Predictions) if f.name not in (*PLAIN, *BY_TASK, *OPTIONAL))
RANKS = {"scores": 3, "targets": 3, "sequence": 3, "last_seen": 2, "limits": 2, "answers": 2, "following": 2}


class Collector:
    """Collects predictions batch by batch, on every process of a distributed run."""

    def __init__(self, annotations: Annotations, config: ClipConfig) -> None:
        """`annotations`: of the split, in the order of its `ClipDataset`."""
        self.annotations, self.config = evaluated(annotations), config
        self.clips = annotations.examples
        self.rows: dict[int, list[int]] = {}  # online: the rows of each video
        for row, (video, _) in enumerate(target_rows(annotations) if annotations.task == "online" else ()):
            self.rows.setdefault(video, []).append(row)
        self.sequence = config.sequence if annotations.task == "online" else None
        before, following = sequence_targets(annotations, self.sequence or 0) if self.sequence else ([], [])
        self.before, self.following = torch.tensor(before, dtype=torch.float64), torch.tensor(following)
        self.positions = positions(annotations.task, config)
        self._batches: list[dict[str, Tensor]] = []
        self._bad: dict[int, str] = {}

    def add(self, batch: Batch, logits: Logits | None) -> None:
        """Add a batch and its logits at every frame, (B, T, C) by task; None if all of its clips are bad."""
        self._bad |= {clip.index: clip.why for clip in batch.bad}
        if logits is None or not len(batch):
            return
        self._check(batch, logits)
        lengths, observed = batch.lengths, batch.observed.cpu()
        times = batch.times.masked_fill(batch.times.isnan(), -torch.inf)
        if self.annotations.task == "online":
            self._batches.append(self._online(batch, logits, times))
            return
        columns = self._columns(lengths)  # (B, P)
        found = {"index": torch.tensor(batch.indices), "lengths": lengths, "limits": times.gather(1, columns)}
        found["last_seen"] = times.cummax(1).values.gather(1, columns)
        unobserved = ~observed.gather(1, columns)[..., None]
        for task in logits:
            rows = columns.to(logits[task].device)[..., None].expand(-1, -1, logits[task].shape[-1])
            scores = logits[task].detach().gather(1, rows).float().cpu()
            if scores.isnan().any():
                ident = batch.ids[int(scores.isnan().flatten(1).any(1).nonzero()[0])]
                raise InputError(f"the model's {task} logits of example {ident} are NaN")
            found[f"scores.{task}"] = scores.masked_fill(unobserved, -torch.inf)
        if self.annotations.task == "recognition":
            padding = ~length_mask(lengths, observed.shape[1])
            found["answers"] = logits.action.detach().argmax(-1).cpu().masked_fill(padding, -1)
        self._batches.append(found)

    def _online(self, batch: Batch, logits: Logits, times: Tensor) -> dict[str, Tensor]:
        """The rows of a batch of videos: each action at the last frame at or before start - tau_a.

        Without predictions for each horizon, that of the next action counts.
        """
        scores = logits.action.unsqueeze(2) if logits.ahead is None else logits.ahead.detach()  # (B, T, 1 or P, C)
        if (known := scores.shape[2]) not in (1, len(self.positions)):
            expected = f"{len(self.positions)} horizons, {self.positions}"
            raise ConfigError(
                f"the model predicts {known} horizons, the data has {expected}: set clip.steps and stride"
            )
        pairs = [(clip, row) for clip, video in enumerate(batch.indices) for row in self.rows.get(video, ())]
        clips, rows = (torch.tensor([pair[i] for pair in pairs], dtype=torch.int64) for i in (0, 1))
        if scores.isnan().any():
            raise InputError(f"the model's action logits of one of {', '.join(batch.ids)} are NaN")
        limits = self._limits([self.annotations.examples[row] for row in rows])  # (n, P)
        shown = (times[clips][:, None] <= limits[..., None] + SLACK) & batch.observed.cpu()[clips][:, None]  # (n, P, T)
        count = shown.sum(-1)
        columns = (shown * torch.arange(shown.shape[-1])).amax(-1)
        places = (clips[:, None], columns, torch.arange(known) if known > 1 else torch.zeros(1, dtype=torch.int64))
        found = scores[tuple(place.to(scores.device) for place in places)].float().cpu()  # (n, P, C)
        unobserved = count == 0
        return self._sequences(batch, logits, times, clips, rows) | {
            "index": rows,
            "lengths": batch.lengths[clips],
            "limits": limits,
            "last_seen": times[clips].gather(1, columns).masked_fill(unobserved, -torch.inf),
            "scores.action": found.masked_fill(unobserved[..., None], -torch.inf),
        }

    def _sequences(self, batch: Batch, logits: Logits, times: Tensor, clips: Tensor, rows: Tensor) -> dict[str, Tensor]:
        """The next actions that the rows have, predicted at the last frame before their time."""
        if self.sequence is None:
            return {}
        if logits.sequence is None or logits.sequence.shape[2] != self.sequence:
            steps = 0 if logits.sequence is None else logits.sequence.shape[2]
            raise ConfigError(f"the model predicts {steps} next actions and clip.sequence is {self.sequence}")
        shown = (times[clips] < self.before[rows][:, None] - SLACK) & batch.observed.cpu()[clips]  # (n, T)
        last = (shown * torch.arange(shown.shape[1])).amax(1)
        device = logits.sequence.device
        found = logits.sequence.detach()[clips.to(device), last.to(device)].float().cpu()
        if found.isnan().any():
            raise InputError(f"the model's scores of the next actions of one of {', '.join(batch.ids)} are NaN")
        return {"sequence": found, "following": self.following[rows].masked_fill(~shown.any(1, True), UNKNOWN)}

    def share(self) -> Share:
        """What was added in this process: tensors by batch, and why clips could not be read."""
        return concatenate(self._batches), self._bad

    def predictions(self, shares: Sequence[Share] | None = None) -> Predictions:
        """Everything that was added, on any process, or all `shares`. DataError unless every example was."""
        gathered = gather(*self.share()) if shares is None else shares
        found = concatenate([tensors for tensors, _ in gathered if tensors])
        examples, total, count = self.annotations.examples, len(self.annotations.examples), len(self.positions)
        indices = found["index"].tolist() if found else []
        first = {index: row for row, index in reversed(list(enumerate(indices)))}  # the first of duplicates counts
        read = torch.zeros(total, dtype=torch.bool)
        read[list(first)] = True

        def table(name: str, fill: float, *shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
            values = torch.full((total, *shape), fill, dtype=dtype)
            if name in found:
                values[list(first)] = found[name][list(first.values())]
            return values

        widths = {name[7:]: values.shape[-1] for name, values in found.items() if name.startswith("scores.")}
        widths = widths or {"action": len(self.annotations.classes["action"])}
        longest = found["answers"].shape[1] if "answers" in found else 0
        ofs = self.rows if self.annotations.task == "online" else None
        unread = {i: why for _, theirs in gathered for i, why in theirs.items()}
        bad = {row: why for i, why in unread.items() for row in ([i] if ofs is None else ofs[i]) if not read[row]}
        never = [i for i in range(total) if not read[i] and i not in bad]
        if never:
            lost = f"{len(never)} of {total} examples of {self.annotations.name}, such as {examples[never[0]].id}"
            raise DataError(f"there are no predictions for {lost}: evaluate all of them")
        sequences: dict[str, Any] = {}
        if self.sequence is not None:
            z = self.sequence
            sequences["sequence"] = table("sequence", -torch.inf, z, widths["action"], dtype=torch.float32)
            labels = table("following", UNKNOWN, z, dtype=torch.int64)
            # The actions of a video that cannot be read are missed, not left out.
            sequences["following"] = torch.where(read[:, None], labels, self.following.view(-1, z))
        anticipation, ahead = self.annotations.task == "anticipation", self.annotations.task != "recognition"
        return Predictions(
            task=self.annotations.task,
            positions=self.positions,
            ids=tuple(example.id for example in examples),
            labels={task: label_tensor(examples, task) for task in self.annotations.classes},
            scores={t: table(f"scores.{t}", -torch.inf, count, w, dtype=torch.float32) for t, w in widths.items()},
            read=read,
            empty=torch.tensor([anticipation and nothing_precedes(e, self.config) for e in examples]) & ~read,
            answers=table("answers", -1, longest, dtype=torch.int64),
            lengths=table("lengths", 0, dtype=torch.int64),
            last_seen=table("last_seen", -torch.inf, count),
            limits=self._limits(examples) if ahead else table("limits", torch.inf, count),
            missing=tuple((examples[i].id, bad[i]) for i in sorted(bad)),
            **sequences,
        )

    def _check(self, batch: Batch, logits: Logits) -> None:
        examples = self.clips
        for index, ident in zip(batch.indices, batch.ids, strict=True):
            if not index < len(examples) or examples[index].id != ident:
                raise DataError(f"the batch has {ident} as example {index}, and the annotations have another one there")
        for task in logits:
            known, shape = len(self.annotations.classes.get(task, ())), tuple(logits[task].shape)
            if shape[:-1] != (frames := tuple(batch.observed.shape)):
                raise InputError(f"{task} logits have shape {shape}; they need (B, T, C) with (B, T) = {frames}")
            if shape[-1] != known:
                classes = f"{shape[-1]} classes of {task} and {self.annotations.name} has {known}"
                raise ConfigError(f"the model predicts {classes}: the model is for other data")

    def _columns(self, lengths: Tensor) -> Tensor:
        """(B, P): the frame at which each position is evaluated."""
        if self.annotations.task == "recognition":
            if len(self.positions) == 1:  # the clip is cut there
                return lengths[:, None] - 1
            return torch.tensor([[observed_frames(n, f) - 1 for f in self.positions] for n in lengths.tolist()])
        if lengths.ne(self.config.steps).any():
            other = f"{int(lengths[lengths != self.config.steps][0])} positions and clip.steps is {self.config.steps}"
            raise DataError(f"a clip of {self.annotations.name} has {other}: set clip.steps to what the data has")
        return torch.arange(self.config.steps)[-len(self.positions) :].expand(len(lengths), -1)

    def _limits(self, examples: Sequence[Example]) -> Tensor:
        """(N, P): start - tau_a. If the annotations count frames, the start is the time of its frame."""
        frames = [e.start * EPIC_FPS if e.start_frame is None else e.start_frame - 1 for e in examples]
        return torch.tensor(frames, dtype=torch.float64)[:, None] / EPIC_FPS - torch.tensor(self.positions).double()


def positions(task: Task, config: ClipConfig) -> tuple[float, ...]:
    """Where clips are evaluated.

    Recognition: at FRACTIONS of a complete clip; a clip that is cut is evaluated at its end. Anticipation and online:
    at every position from 2 s on. Detection: likewise, and at 0 s.
    """
    if task == "recognition":
        return FRACTIONS if config.observe == 1 else (config.observe,)
    return (*horizons(config), 0.0) if task == "detection" else horizons(config)


def position_name(task: Task, position: float) -> str:
    """25% for recognition, 0.25s for anticipation."""
    return f"{100 * position:g}%" if task == "recognition" else f"{position:g}s"


def label_tensor(examples: Sequence[Example], task: str) -> Tensor:
    """(N,) int64: labels of a task; -1 if unknown."""
    return torch.tensor([example.labels.get(task, UNKNOWN) for example in examples])


def concatenate(parts: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
    """The tensors of several batches or `Predictions` as one; answers are padded to the longest clip."""
    longest = max((part["answers"].shape[1] for part in parts if "answers" in part), default=0)
    for part in parts:
        if "answers" in part:
            part["answers"] = pad(part["answers"], (0, longest - part["answers"].shape[1]), value=-1)
    return {name: torch.cat([part[name] for part in parts]) for name in (parts[0] if parts else ())}


def pool(parts: Sequence[Predictions]) -> Predictions:
    """The predictions of several folds as those of one model. DataError unless each example is in one fold."""
    first = parts[0]
    ids = [ident for part in parts for ident in part.ids]
    if len(set(ids)) < len(ids):
        twice = next(ident for i, ident in enumerate(ids) if ident in ids[:i])
        raise DataError(f"the example {twice} is for validation in two folds: each must be in exactly one")
    classes = [{task: scores.shape[2] for task, scores in part.scores.items()} for part in parts]
    kinds = [(part.task, part.positions, found) for part, found in zip(parts, classes, strict=True)]
    if any(kind != kinds[0] for kind in kinds):
        raise DataError(f"the folds were evaluated at other positions, or on other classes: {classes}")
    return Predictions.from_tensors(
        concatenate([part.tensors() for part in parts]),
        task=first.task,
        positions=first.positions,
        ids=tuple(ids),
        missing=tuple(entry for part in parts for entry in part.missing),
        groups=tuple(name for part in parts for name in part.groups) if all(part.groups for part in parts) else (),
    )


def sorted_by_id(predictions: Predictions) -> Predictions:
    return predictions.select(torch.tensor(sorted(range(len(predictions)), key=predictions.ids.__getitem__)))
