"""The predictor: frames -> backbone -> core -> head. It has the same interface as the core.

    model = create_model("horst_tiny")
    out, _ = model(frames)                        # a clip (B, T, 3, H, W), RGB in 0..255
    state = model.init_state(1, 112, 112)
    out, state = model.step(frame, state)         # one frame (B, 3, H, W)

State is passed in and returned, so one model serves any number of streams.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, overload

import torch
from torch import Tensor, nn

from horst.backbones import Backbone, WindowMemory, create_backbone
from horst.config import from_dict
from horst.errors import ConfigError, InputError, StateError
from horst.heads import Head, Logits, Unroll, Unroller, create_head
from horst.layers import Core, CoreConfig, CoreOutput, Device, State, create_core
from horst.masks import Lengths, check_lengths, length_mask
from horst.registry import Part

if TYPE_CHECKING:
    from horst.streaming import StreamSession

# Limits far above any real use: a config that exceeds them would fill the memory.
MAX_PIXELS, MAX_FPS, MAX_CHANNELS, MAX_LENGTH = 4096, 1000, 65_536, 1024
# The options of cores that count channels; the others count states, steps and the like.
CHANNELS = ("in_channels", "hidden", "mlp", "projection")

Labels = dict[str, list[str]]  # names of the classes by task: "action", and for anticipation "verb" and "noun" too


@dataclass(frozen=True, kw_only=True, slots=True)
class PredictorConfig:
    """Everything that is needed to build a predictor. It is plain data and is saved with the weights."""

    backbone: Part
    core: CoreConfig
    head: Part
    size: tuple[int, int]  # height and width of the frames that the model is made for; others work, at another cost
    fps: float  # frames per second that the model is made for

    def __post_init__(self) -> None:
        size, fps = self.size, self.fps
        if not isinstance(size, list | tuple) or len(size) != 2 or not all(type(v) is int and v > 0 for v in size):
            raise ConfigError(f"size is {size!r}; it takes [height, width]")
        if max(size) > MAX_PIXELS:
            raise ConfigError(f"size is {size!r}; height and width are at most {MAX_PIXELS} pixels")
        if isinstance(fps, bool) or not isinstance(fps, int | float) or not 1 / MAX_FPS <= fps <= MAX_FPS:
            raise ConfigError(f"fps is {fps!r}; it takes a number from {1 / MAX_FPS} to {MAX_FPS}")
        object.__setattr__(self, "size", tuple(size))
        object.__setattr__(self, "fps", float(self.fps))
        for name, value in asdict(self.core).items():
            limit = MAX_CHANNELS if name in CHANNELS else MAX_LENGTH
            for number in value if isinstance(value, list | tuple) else (value,):
                if isinstance(number, int | float) and number > limit:
                    raise ConfigError(f"{name} of {self.core.title} is {number}; it takes at most {limit}")

    def to_dict(self) -> dict[str, Any]:
        """Plain data. A core other than HORST has its name in it."""
        data = asdict(self)
        return data if self.core.name == "horst" else {**data, "core": {"name": self.core.name, **data["core"]}}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        head = data.get("head")
        if isinstance(head, dict) and isinstance(head.get("options"), dict):  # its name in older versions
            renamed = {("num_classes" if key == "num_actions" else key): v for key, v in head["options"].items()}
            data = {**data, "head": {**head, "options": renamed}}
        return from_dict(cls, data)


@dataclass(frozen=True, slots=True)
class PredictorOutput:
    """The prediction for a clip (leading axes B, T) or for one frame (B)."""

    logits: Logits
    core: CoreOutput  # the input of the head, and on request the attention weights


Predicted = tuple[PredictorOutput, Any]  # with the state after it


@dataclass(frozen=True, slots=True)
class WindowState(State):
    """The state of a model whose backbone has a memory. That of other models is the state of their core."""

    core: Any
    memory: WindowMemory

    @property
    def count(self) -> Tensor:  # type: ignore[override]
        return self.core.count

    def tensors(self) -> Iterator[tuple[str, Tensor]]:
        yield from self.core.tensors()
        yield from ((f"window_{name}", tensor) for name, tensor in self.memory.tensors())

    def map(self, function: Callable[[Tensor], Tensor]) -> Self:
        return replace(self, core=self.core.map(function), memory=self.memory.map(function))


class Predictor(nn.Module):
    """A backbone, a temporal core and a head."""

    def __init__(
        self,
        backbone: Backbone,
        core: Core,
        head: Head,
        *,
        size: tuple[int, int] = (224, 224),
        fps: float = 12.0,
        labels: Labels | None = None,
    ) -> None:
        """`size` (height, width) and `fps` of the frames that it is made for; `labels`, the names of its classes."""
        super().__init__()
        inputs = core.config.in_channels
        if backbone.channels != inputs:
            raise ConfigError(f"the backbone gives {backbone.channels} channels and the core takes {inputs}")
        if core.channels != head.channels:
            raise ConfigError(f"the core gives {core.channels} channels and the head takes {head.channels}")
        if missing := [name for name in head.reads if name not in core.gives]:
            what = f"reads {missing[0]}, which {core.config.title} does not give"
            raise ConfigError(f"the head {type(head).__name__} {what}")
        self.backbone, self.core, self.head = backbone, core, head
        checked = PredictorConfig(backbone=Part(name=""), core=core.config, head=Part(name=""), size=size, fps=fps)
        self.size, self.fps = checked.size, checked.fps
        self.labels = check_labels(labels, head.classes) if labels else None
        self.card_data: dict[str, Any] = {}
        """Metadata of the README.md that it was opened with, such as its license; saved with it."""

    @classmethod
    def from_config(cls, config: PredictorConfig, *, labels: Labels | None = None) -> Self:
        backbone = create_backbone(config.backbone.name, **config.backbone.options)
        core = create_core(config.core)
        head = create_head(config.head.name, core.channels, features=config.core.in_channels, **config.head.options)
        return cls(backbone, core, head, size=config.size, fps=config.fps, labels=labels)

    @classmethod
    def from_pretrained(
        cls,
        pretrained_model_name_or_path: str | Path,
        *,
        force_download: bool = False,
        token: str | bool | None = None,
        cache_dir: str | Path | None = None,
        local_files_only: bool = False,
        revision: str | None = None,
        device: torch.device | str = "cpu",
    ) -> "Predictor":
        """Open a saved or pretrained model, in evaluation mode. Arguments as in huggingface_hub's `ModelHubMixin`.

        Args:
            pretrained_model_name_or_path: All that `horst.open_model` takes, or user/name of the Hugging Face Hub,
                unless there is a folder of that name.
            force_download: Download files again that are in the cache.
            token: Of the Hub; by default that of `hf auth login`.
            cache_dir: Folder of downloaded files; that of huggingface_hub by default.
            local_files_only: Do not connect: take the files from the cache.
            revision: Branch, tag or commit of the repository.
            device: "auto" is a GPU if there is one.
        """
        from horst.models.hub import open_pretrained

        options = {"force_download": force_download, "token": token, "cache_dir": cache_dir}
        options |= {"local_files_only": local_files_only, "revision": revision}
        return open_pretrained(pretrained_model_name_or_path, device=device, **options)

    @overload
    def save_pretrained(
        self, save_directory: str | Path, *, push_to_hub: Literal[False] = False, **options: Any
    ) -> Path: ...
    @overload
    def save_pretrained(self, save_directory: str | Path, *, push_to_hub: Literal[True], **options: Any) -> str: ...
    def save_pretrained(
        self,
        save_directory: str | Path,
        *,
        repo_id: str | None = None,
        push_to_hub: bool = False,
        model_card_kwargs: Mapping[str, Any] | None = None,
        overwrite: bool = False,
        half: bool = False,
        name: str | None = None,
        **push_to_hub_kwargs: Any,
    ) -> Path | str:
        """Save the model to a folder. Arguments as in huggingface_hub's `ModelHubMixin`, and three more.

        Args:
            save_directory: A new or empty folder.
            repo_id: With `push_to_hub`: the repository; the name of the folder by default.
            push_to_hub: Upload the model too.
            model_card_kwargs: Entries of the metadata of README.md, such as {"license": "mit", "datasets": ["mine"]}.
            overwrite: Replace the folder if it is a saved model. A README.md of one's own is kept.
            half: Store the weights as fp16, at half the size; they are opened as fp32.
            name: Title of the README.md; the name of the folder by default.
            push_to_hub_kwargs: Further arguments of `push_to_hub`.

        Returns:
            The folder, or with `push_to_hub` the URL of the commit.
        """
        from horst.models.checkpoint import save

        if push_to_hub_kwargs and not push_to_hub:
            raise TypeError(f"{', '.join(push_to_hub_kwargs)}: for push_to_hub=True alone")
        path = save(self, save_directory, overwrite=overwrite, half=half, name=name, metadata=model_card_kwargs)
        if not push_to_hub:
            return path
        return self.push_to_hub(repo_id or path.name, model_card_kwargs=model_card_kwargs, **push_to_hub_kwargs)

    def push_to_hub(
        self,
        repo_id: str,
        *,
        commit_message: str = "Push model using huggingface_hub.",
        private: bool | None = None,
        token: str | None = None,
        branch: str | None = None,
        create_pr: bool | None = None,
        allow_patterns: list[str] | str | None = None,
        ignore_patterns: list[str] | str | None = None,
        delete_patterns: list[str] | str | None = None,
        model_card_kwargs: Mapping[str, Any] | None = None,
    ) -> str:
        """Upload the model to the Hugging Face Hub. Arguments as in huggingface_hub's `ModelHubMixin`.

        Args:
            repo_id: user/name, or a name of one's own. The repository is created if it does not exist.
            commit_message: Of the commit.
            private: Whether a new repository is private; null: as the account says.
            token: Of the Hub, with write access; by default that of `hf auth login`.
            branch: Branch to push to, created if it does not exist; "main" by default.
            create_pr: Open a pull request with the commit instead of changing the branch.
            allow_patterns: Upload only files that match.
            ignore_patterns: Do not upload files that match.
            delete_patterns: Delete remote files that match, in the same commit.
            model_card_kwargs: Entries of the metadata of README.md, such as {"license": "mit"}. A README.md in the
                repository that horst did not write is kept.

        Returns:
            The URL of the commit.
        """
        from horst.models.hub import push_to_hub

        patterns = {"allow_patterns": allow_patterns, "ignore_patterns": ignore_patterns}
        return push_to_hub(
            self, repo_id, metadata=model_card_kwargs, private=private, token=token, branch=branch,
            commit_message=commit_message, create_pr=create_pr, delete_patterns=delete_patterns, **patterns,
        )  # fmt: skip

    @property
    def config(self) -> PredictorConfig:
        """From which the model can be built again. Its parts must come from `create_backbone` and `create_head`."""
        backbone, head = self.backbone.made_from, self.head.made_from
        if backbone is None or head is None:
            kind, part = ("backbone", self.backbone) if backbone is None else ("head", self.head)
            raise ConfigError(f"this {type(part).__name__} has no config: build it with create_{kind}")
        return PredictorConfig(backbone=backbone, core=self.core.config, head=head, size=self.size, fps=self.fps)

    @property
    def num_classes(self) -> int:
        """The number of actions."""
        return self.head.classes["action"]

    def reset_classifier(self, num_classes: int | Sequence[str] | Labels, **options: Any) -> None:
        """Replace the classifier by a new one for other classes. The rest of the model keeps its weights.

        `num_classes`: their number, or their names, or the names by task {"action": [...], "verb": [...], ...}.
        `options`: other options of the head, such as `num_verbs` and `num_nouns`.
        """
        before, labels = self.config.head, None
        if not isinstance(num_classes, int):
            labels = num_classes if isinstance(num_classes, dict) else {"action": list(num_classes)}
            counts = {task: len(names) for task, names in labels.items()}
            num_classes = counts.pop("action", 0)
            options = {f"num_{task}s": count for task, count in counts.items() if task != "present"} | options
        kept = dict(before.options)
        if "pairs" in kept and "pairs" not in options:  # verb and noun of each of the old classes
            kept = {key: value for key, value in kept.items() if key not in ("num_verbs", "num_nouns", "pairs")}
        kept |= {"num_classes": num_classes, **options}
        head = create_head(before.name, self.core.channels, features=self.core.config.in_channels, **kept)
        weights = self.head.state_dict().items()
        shared = {key: value for key, value in weights if key.split(".")[0] not in (*head.classifiers, "video")}
        head.load_state_dict(shared, strict=False)
        self.labels, self.card_data = check_labels(labels, head.classes) if labels else None, {}  # another model
        like = next(self.head.parameters())
        self.head = head.to(like.device, like.dtype).train(self.training)

    def init_state(
        self, batch_size: int, height: int, width: int, *, device: Device = None, dtype: torch.dtype | None = None
    ) -> Any:
        """The state before the first frame, for frames of height x width."""
        size = self.backbone.output_size(height, width)
        state = self.core.init_state(batch_size, *size, device=device, dtype=dtype)
        memory = self.backbone.init_memory(batch_size, height, width)
        if memory is None:
            return state
        moved = memory.map(lambda x: x.to(device=device, dtype=dtype if x.is_floating_point() else None))
        return WindowState(state, moved)

    def forward(
        self,
        frames: Tensor,
        state: Any = None,
        lengths: Lengths = None,
        *,
        unroll: Unroll = None,
        attention: bool = False,
    ) -> Predicted:
        """A clip (B, T, 3, H, W), RGB in 0..255. `unroll` is for unrolling heads: see `Unroller`."""
        self._check(frames, "clip", 5, "(B, T, C, H, W)", state)
        seen = check_lengths(lengths, *frames.shape[:2])
        unroll = self._unroll(unroll, state, frames.shape[1], clip=True)
        before, memory = _parts(state)
        maps, memory = self.backbone.clip(frames, memory, None if lengths is None else seen)
        out, after = self.core(maps, before, lengths, attention=attention)
        valid = None
        if lengths is not None and self.training:  # a batch norm does not count padding
            valid = length_mask(torch.tensor(seen, device=frames.device), frames.shape[1])
        return PredictorOutput(self.read(out, valid, unroll=unroll), out), _joined(after, memory)

    def step(self, frame: Tensor, state: Any, *, unroll: Unroll = None, attention: bool = False) -> Predicted:
        """One frame (B, 3, H, W) of every stream."""
        self._check(frame, "frame", 4, "(B, C, H, W)", state)
        before, memory = _parts(state)
        maps, memory = self.backbone.step(frame, memory)
        out, after = self.step_maps(maps, before, unroll=unroll, attention=attention)
        return out, _joined(after, memory)

    def step_maps(self, maps: Tensor, state: Any, *, unroll: Unroll = None, attention: bool = False) -> Predicted:
        """The rest of a step, after the backbone: its maps (B, C, h, w) of the frame of every stream.

        `state` is that of the core.
        """
        unroll = self._unroll(unroll, state, 1, clip=False)
        out, state = self.core.step(maps, state, attention=attention)
        return PredictorOutput(self.read(out, unroll=unroll), out), state

    def stream(self, **options: Any) -> "StreamSession":
        """A session for a live stream of frames with times; options: `horst.streaming.StreamSession`."""
        from horst.streaming import StreamSession

        return StreamSession(self, **options)

    def read(self, out: CoreOutput, valid: Tensor | None = None, **options: Any) -> Logits:
        """The head's output for a core's output. `valid` (B, T): the frames without padding. `options` of the head."""
        given = {name: value for name, value in options.items() if value is not None}
        return self.head.read(**{name: out.named(name) for name in self.head.reads}, valid=valid, **given)

    def _check(self, frames: Tensor, what: str, rank: int, shape: str, state: Any) -> None:
        """Check the input before the backbone runs, because that may update statistics."""
        if not isinstance(frames, Tensor):
            raise InputError(f"the {what} is a {type(frames).__name__}; a tensor is needed: torch.from_numpy makes one")
        if frames.ndim != rank or 0 in frames.shape:
            raise InputError(f"the {what} has shape {tuple(frames.shape)}; {shape} without an empty axis is needed")
        device = next(self.parameters()).device
        if frames.device != device:
            raise InputError(f"the {what} is on {frames.device} and the model on {device}: move one of them")
        if state is not None or what == "frame":
            size = self.backbone.output_size(frames.shape[-2], frames.shape[-1])
            if (self.backbone.window > 1) != isinstance(state, WindowState):
                raise StateError(
                    f"the state is a {type(state).__name__}, of another model: pass what init_state or an earlier call "
                    "of this model returned"
                )
            self.core.check_state(_parts(state)[0], frames.shape[0], *size)

    def _unroll(self, unroll: Unroll, state: Any, frames: int, *, clip: bool) -> Unroll:
        """The horizons for the head. A clip that continues another one counts on from its end."""
        if not isinstance(self.head, Unroller):
            if unroll is not None:
                raise InputError(f"unroll is {unroll}, but this model's head does not unroll: leave it out")
            return None
        if unroll is None and clip and state is not None:
            seen = set(state.count.tolist())
            if len(seen) > 1 or max(seen) + frames > self.head.steps:
                raise InputError(f"after {max(seen)} frames the time until the action is unknown: pass unroll")
            unroll = [self.head.steps - max(seen) - t for t in range(frames)]
        self.head.horizons(unroll, frames, clip)
        return unroll


def _parts(state: Any) -> tuple[Any, WindowMemory | None]:
    """The states of the core and of the backbone."""
    return (state.core, state.memory) if isinstance(state, WindowState) else (state, None)


def _joined(core: Any, memory: WindowMemory | None) -> Any:
    return core if memory is None else WindowState(core, memory)


def check_labels(labels: Labels, classes: dict[str, int]) -> Labels:
    """Labels that fit a head: one name per class, for all or some of its tasks."""
    if not isinstance(labels, dict):
        raise ConfigError(f"labels is a {type(labels).__name__}; it takes names by task, such as {{'action': [...]}}")
    for task, names in labels.items():
        if task not in classes:
            raise ConfigError(f"there are labels for {task!r} and the head predicts {', '.join(classes)}")
        if not isinstance(names, list | tuple):
            raise ConfigError(f"the labels for {task!r} are a {type(names).__name__}; a list of names is needed")
        if len(names) != classes[task]:
            raise ConfigError(f"there are {len(names)} labels for {task!r} and the head has {classes[task]} classes")
        if not all(isinstance(name, str) for name in names):
            raise ConfigError(f"the labels for {task!r} must be strings")
    return {task: list(names) for task, names in labels.items()}
