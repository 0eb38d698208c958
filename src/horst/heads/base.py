"""What every head offers, and how one that unrolls is asked: how many steps ahead."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from horst.config import check_positive
from horst.errors import ConfigError, InputError
from horst.heads.logits import Logits
from horst.registry import Part

Unroll = int | Sequence[int] | Sequence[Sequence[int]] | Tensor
Advance = Callable[[tuple[Tensor, ...], list[int], int], tuple[Tensor, ...]]


class Head(nn.Module):
    """Reads predictions off what a core gives: `head(y=..., ...)` returns `Logits`."""

    reads: ClassVar[tuple[str, ...]] = ("y",)
    """What of a core's output it takes, by keyword; see `CoreOutput.named`."""
    task: ClassVar[Literal["recognition", "anticipation"]] = "anticipation"
    """Whether it names the action that it sees or the next one."""
    unrolls: ClassVar[bool] = False
    classifiers: ClassVar[tuple[str, ...]] = ("fc",)
    """The layers whose shapes depend on the classes; `Predictor.reset_classifier` replaces them."""
    predicts_features: bool = False
    """Whether it says what features come, in `Logits.future`."""
    made_from: Part | None = None
    """How `create_head` made it."""

    @property
    @abstractmethod
    def channels(self) -> int:
        """Of the maps y that it reads."""

    @property
    @abstractmethod
    def classes(self) -> dict[str, int]:
        """How many it tells apart, by task."""

    @abstractmethod
    def forward(self, *args: Any, **options: Any) -> Logits:
        """Maps (B, T, C, H, W), or (B, C, H, W) of one frame, by keyword; `valid` (B, T): no padding."""


def check_parts(num_verbs: int | None, num_nouns: int | None) -> dict[str, int]:
    """{"verb": ..., "noun": ...}; empty where a head predicts the action alone, for data that has no other labels."""
    if num_verbs is None and num_nouns is None:
        return {}
    if num_verbs is None or num_nouns is None:
        raise ConfigError(
            f"num_verbs is {num_verbs} and num_nouns {num_nouns}: give both, or neither for actions alone"
        )
    check_positive(num_verbs=num_verbs, num_nouns=num_nouns)
    return {"verb": num_verbs, "noun": num_nouns}


class Unroller(Head):
    """A head that runs ahead of what was seen, a frame a step, up to the time for which it is asked."""

    unrolls = True
    steps: int
    """Of a whole clip: before frame t of it, the action is steps - t away."""

    def horizons(self, unroll: Unroll | None, frames: int, clip: bool) -> tuple[list[list[int]], bool]:
        """The horizons of every frame, and whether an axis for several of them was asked for."""
        if unroll is None:
            if not clip:
                raise InputError("one frame does not say how far off the action is: pass unroll (tau_a * fps steps)")
            if frames > self.steps:
                raise InputError(f"the clip has {frames} frames and the head unrolls over {self.steps}: pass unroll")
            unroll = [self.steps - t for t in range(frames)]
        given: Any = unroll.tolist() if hasattr(unroll, "tolist") else unroll  # a tensor or an array
        if not isinstance(given, Sequence):  # one horizon for all
            rows, several = [[given]] * frames, False
        elif not clip:
            rows, several = [list(given)], True
        else:
            several = all(isinstance(row, Sequence) for row in given)
            rows = [list(row) for row in given] if several else [[row] for row in given]
        if len(rows) != frames or len({len(row) for row in rows}) != 1 or not rows[0]:
            raise InputError(
                f"unroll is {unroll}; {frames} frames take a number, {frames} of them or {frames} equal rows"
            )
        for value in (v for row in rows for v in row):
            if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
                raise InputError(f"unroll holds {value!r}; it counts LSTM steps, whole numbers from 1 on")
        return rows, several

    @staticmethod
    def ahead(
        state: tuple[Tensor, ...], horizons: list[list[int]], advance: Advance, keep: int | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Runs `advance` from every frame on, as far as its longest horizon; a frame drops out once that is reached.

        Args:
            state: Tensors (B, T, C), what the steps of each frame begin with.
            horizons: Of every frame, U of them.
            advance: (the state of the frames that still run, their places, the step from 1 on) -> the state after it.
            keep: Which of the state's tensors is wanted as it was after every step, too.

        Returns:
            The first of the state's tensors after each horizon, (B, T, U, C), and what was kept, (B, T, K, C), with
            zeros after a frame's longest horizon.
        """
        reached: list[dict[int, Tensor]] = [{} for _ in horizons]
        running = list(range(len(horizons)))
        kept = []
        for k in range(1, max(max(row) for row in horizons) + 1):
            still = [i for i, t in enumerate(running) if max(horizons[t]) >= k]
            if len(still) < len(running):
                state = tuple(select(a, still) for a in state)
                running = [running[i] for i in still]
            state = advance(state, running, k)
            for i, t in enumerate(running):
                if k in horizons[t]:
                    reached[t][k] = state[0][:, i]
            if keep is not None:
                blank = state[keep].new_zeros(state[keep].shape[0], state[keep].shape[2])
                at = {t: state[keep][:, i] for i, t in enumerate(running)}
                kept.append(torch.stack([at.get(t, blank) for t in range(len(horizons))], 1))
        out = torch.stack([torch.stack([reached[t][k] for k in row], 1) for t, row in enumerate(horizons)], 1)
        return out, torch.stack(kept, 2) if kept else None


def select(x: Tensor, places: Sequence[int]) -> Tensor:
    """x (B, T, C) at some frames; of neighbours without a copy, and without numbers that travel to a GPU."""
    first, after = places[0], places[-1] + 1
    return x[:, first:after] if list(places) == list(range(first, after)) else x[:, list(places)]
