"""The interface of every head, and the registry of heads."""

import inspect
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

from torch import Tensor, nn

from horst.config import Task, check_positive
from horst.errors import ConfigError, InputError
from horst.registry import Part, Registry

if TYPE_CHECKING:
    from horst.heads.video import VideoOutputs

TASKS = ("action", "verb", "noun", "present")


@dataclass(frozen=True, slots=True)
class Logits:
    """Unnormalised scores by task, each (B, T, classes) for a clip and (B, classes) for a step.

    `logits.verb` and `logits["verb"]` are the same. Early recognition has `action` only.
    """

    action: Tensor
    verb: Tensor | None = None
    noun: Tensor | None = None
    present: Tensor | None = None  # of models of whole videos: the action that is going on
    ahead: Tensor | None = None  # likewise: the action after each horizon, (..., horizons, classes); no task of its own
    sequence: Tensor | None = None  # likewise, on request: the next Z actions, (..., Z, classes); no task either
    future: Tensor | None = None  # no scores: the predicted pooled input of the core, (B, T, K, C) for K frames ahead

    def __getitem__(self, task: str) -> Tensor:
        if task not in self.keys():
            raise KeyError(f"no logits for {task!r}; there are {', '.join(self.keys())}")
        return getattr(self, task)

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def map(self, function: Callable[[Tensor], Tensor]) -> Self:
        """Apply `function` to the scores of every task, and of the next actions."""
        sequence = None if self.sequence is None else function(self.sequence)
        return type(self)(**{task: function(self[task]) for task in self}, sequence=sequence)

    def keys(self) -> list[str]:
        """The tasks that the head predicts."""
        return [task for task in TASKS if getattr(self, task) is not None]


class Head(nn.Module):
    """Turns the output of a core into predictions: `head(y=..., ...)` returns `Logits`."""

    reads: ClassVar[tuple[str, ...]] = ("y",)  # the outputs of a core that it takes; see `CoreOutput.named`
    task: ClassVar[Task] = "anticipation"  # whether it predicts the current action (recognition) or the next one
    unrolls: ClassVar[bool] = False  # whether it takes the time until the action; see `Unroller`
    classifiers: ClassVar[tuple[str, ...]] = ("fc",)  # the layers that `Predictor.reset_classifier` replaces
    predicts_features: bool = False  # whether it predicts features, in `Logits.future`
    made_from: Part | None = None  # the name and options with which `create_head` made it

    def __init__(self, channels: int, classes: dict[str, int]) -> None:
        """`channels` of the maps y that it reads; the number of `classes` of each task."""
        super().__init__()
        check_positive(num_classes=classes["action"])
        self.channels, self.classes = channels, classes
        self.video: VideoOutputs | None = None  # of models of whole videos

    def read(self, *, valid: Tensor | None = None, **given: Any) -> Logits:
        """`forward`, and the outputs of a model of whole videos."""
        logits: Logits = self(valid=valid, **given)
        maps = {name: given[name] for name in self.reads}
        return logits if self.video is None else self.video(logits, valid, **maps)

    @property
    def current(self) -> bool:
        """Whether it predicts the current action, not the next one."""
        return self.task == "recognition" or (self.video is not None and self.video.present is None)

    @abstractmethod
    def forward(self, *args: Any, **options: Any) -> Logits:
        """Maps (B, T, C, H, W), or (B, C, H, W) of one frame, by keyword. `valid` (B, T): frames without padding."""


HEADS: Registry[type[Head]] = Registry("head")  # the heads by name
register_head = HEADS.register  # A decorator that adds a head: `@register_head("my_head")`


def create_head(
    name: str,
    channels: int,
    *,
    features: int | None = None,
    horizons: Sequence[float] = (),
    video_dropout: float = 0.0,
    detection: bool = False,
    sequence: int | None = None,
    **options: Any,
) -> Head:
    """A head by name, for a core of `channels`: `create_head("recognition", 512, num_classes=41)`.

    `features`: the channels of the core's input, for heads that read it too. `horizons` in seconds, for a model of
    whole videos: see `horst.heads.video`, whose layers have the dropout `video_dropout`; with `detection` it predicts
    the action that is going on, with `sequence` also the next `sequence` actions.
    """
    needed = {"features": features} if "features" in head_options(name) and features is not None else {}
    head: Head = HEADS.create(name, channels, **options, **needed)
    if horizons:
        from horst.heads.video import VideoOutputs

        norm = options.get("norm", "none")
        head.video = VideoOutputs(head, horizons, norm, video_dropout, detection=detection, sequence=sequence)
        options = {**options, "horizons": list(horizons), "video_dropout": video_dropout}
        options |= {} if sequence is None else {"sequence": sequence}
        if detection:
            options["detection"] = True
        else:
            head.classes = {**head.classes, "present": head.classes["action"]}
    head.made_from = Part(name=name, options=options)
    return head


def head_options(name: str) -> list[str]:
    """The options of a head; none for an unknown name."""
    head = HEADS.get(name)
    return [] if head is None else list(inspect.signature(head).parameters)[1:]


def count_classes(num_classes: int, num_verbs: int | None, num_nouns: int | None) -> dict[str, int]:
    """{"action": ..., "verb": ..., "noun": ...}; the action only if there are no numbers of verbs and nouns."""
    if num_verbs is None and num_nouns is None:
        return {"action": num_classes}
    if num_verbs is None or num_nouns is None:
        raise ConfigError(f"num_verbs is {num_verbs} and num_nouns {num_nouns}: give both, or neither for actions only")
    check_positive(num_verbs=num_verbs, num_nouns=num_nouns)
    return {"action": num_classes, "verb": num_verbs, "noun": num_nouns}


def check_maps(channels: int, **maps: Tensor) -> None:
    """InputError for maps that are not (B, T, channels, H, W) or (B, channels, H, W)."""
    for name, m in maps.items():
        if m.ndim not in (4, 5) or m.shape[-3] != channels:
            shape = f"(B, T, {channels}, H, W) or (B, {channels}, H, W)"
            raise InputError(f"{name} has shape {tuple(m.shape)}; this head takes {shape}")
