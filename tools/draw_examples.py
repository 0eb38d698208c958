"""Draws the examples of docs/results/examples.md, and writes their numbers:

python tools/draw_examples.py     # docs/images/examples/*.svg and docs/results/examples.json; minutes

The two models of the package run on clips that they have never seen, those of `horst demo`. Each kind below is a rule,
written with these clips in view. Its example is the first clip, in the order of the data, that fulfils the rule and
whose action is not shown yet.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from horst import open_model, viz
from horst.evaluation.evaluate import clip_for, predict
from horst.evaluation.predictions import Predictions, position_name
from horst.io import write_text
from horst.models import Predictor
from horst.synth.fresh import Fresh, fresh_kitchen, fresh_somethings
from horst.video.sampling import observed_frames
from horst.viz import style
from horst.viz.clips import StreamedClip, stream_clip

DOCS = Path(__file__).resolve().parents[1] / "docs"
FOLDER, NUMBERS = DOCS / "images" / "examples", DOCS / "results" / "examples.json"
SEED, CLIPS, VIDEOS = 1000, 96, 4
"""As in `horst demo`, but for the number of videos."""
TOP = 3
"""Predictions that are listed at a position."""
WIDTH, LARGE = 1011.0, 168.0
"""Points: the width of attention with eight past frames, and of the frames above the predictions."""
LAYERS = {"somethings": (3, 3), "kitchen": (3, 2)}
"""The layers whose temporal and spatial attention is drawn, of three: kitchen's third has uniform maps."""
EVEN = 0.02
"""A map that varies by less than this share of its maximum has no maximum to speak of."""
PARTS, TAUS = (0.25, 0.5, 1.0), (2.0, 1.0, 0.5, 0.25)
POSITIONS = {"somethings": PARTS, "kitchen": TAUS}
"""Observed parts, and seconds before the action."""
Ranks = dict[float, int]
"""By position: the rank of the true action, from 1."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What an example is an example of."""

    name: str
    rule: str
    """In words, and in code:"""
    holds: Callable[[Ranks], bool]
    at: float
    """The position at which the attention is shown."""
    looks: Callable[[NDArray[np.float64]], bool] = lambda weights: True
    """What must hold of the temporal weights (S,) there, the oldest state first."""


def _right(*positions: float, of: tuple[float, ...]) -> Callable[[Ranks], bool]:
    """Right at these positions and wrong at the others."""
    return lambda ranks: all((ranks[position] == 1) == (position in positions) for position in of)


KINDS = {
    "somethings": (
        Kind(
            "early",
            "right at 25% and at every later position",
            lambda ranks: all(rank == 1 for position, rank in ranks.items() if position >= 0.25),
            0.5,
        ),
        Kind("late", "wrong at 25%, right at 50% and 100%", _right(0.5, 1.0, of=PARTS), 0.5),
        Kind("end", "wrong at 25% and 50%, right at 100%", _right(1.0, of=PARTS), 1.0),
        Kind(
            "back",
            "right at 100%, where more than half of the attention is on the two oldest of the eight states",
            lambda ranks: ranks[1.0] == 1,
            1.0,
            lambda weights: bool(weights[:2].sum() > 0.5),
        ),
        Kind("lost", "right at 50%, wrong at 100%", lambda ranks: ranks[0.5] == 1 and ranks[1.0] > 1, 1.0),
        Kind("wrong", "wrong at 25%, 50% and 100%", _right(of=PARTS), 1.0),
    ),
    "kitchen": (
        Kind("early", "right at 2 s and at every later position", lambda ranks: set(ranks.values()) == {1}, 1.0),
        Kind("late", "wrong at 2 s and 1 s, right at 0.5 s and 0.25 s", _right(0.5, 0.25, of=TAUS), 0.25),
        Kind(
            "recent",
            "right at 1 s, where more than half of the attention is on the two latest of the eight states",
            lambda ranks: ranks[1.0] == 1,
            1.0,
            lambda weights: bool(weights[-2:].sum() > 0.5),
        ),
        Kind("lost", "right at 1 s, wrong at 0.25 s", lambda ranks: ranks[1.0] == 1 and ranks[0.25] > 1, 0.25),
        Kind(
            "second",
            "the second guess at 1 s, and right at none of 2, 1, 0.5 and 0.25 s",
            lambda ranks: ranks[1.0] == 2 and _right(of=TAUS)(ranks),
            1.0,
        ),
        Kind("wrong", "not among the five likeliest at any position", lambda ranks: min(ranks.values()) > 5, 1.0),
    ),
}


@dataclass(frozen=True, slots=True)
class ChosenExample:
    """A clip that was chosen."""

    data: str
    kind: Kind
    clip: StreamedClip
    others: tuple[tuple[str, float], ...] = ()
    """Anticipation: the actions that start while the model watches, and how many seconds before this one."""

    @property
    def anticipation(self) -> bool:
        return self.data == "kitchen"

    @property
    def label(self) -> int:
        assert self.clip.label is not None
        return self.clip.label

    def column(self, position: float) -> int:
        """The frame of a position."""
        count = len(self.clip.frames)
        step = float(self.clip.times[1] - self.clip.times[0])
        return count - round(position / step) if self.anticipation else observed_frames(count, position) - 1

    def name(self, position: float) -> str:
        return position_name("anticipation" if self.anticipation else "recognition", position)

    def best(self, position: float) -> list[tuple[int, float]]:
        """(class, probability) of the most likely classes."""
        probabilities = self.clip.probabilities[self.column(position)]
        return [(int(i), float(probabilities[i])) for i in np.argsort(-probabilities, kind="stable")[:TOP]]

    @property
    def temporal(self) -> torch.Tensor:
        """(T, S), the oldest state first."""
        return self.clip.temporal[LAYERS[self.data][0] - 1][0]

    @property
    def spatial(self) -> torch.Tensor:
        """(T, S, h, w)"""
        return self.clip.spatial[LAYERS[self.data][1] - 1][0]

    def weights(self) -> NDArray[np.float64]:
        """(S,) the temporal attention at the position of the kind."""
        return self.temporal[self.column(self.kind.at)].double().numpy()


def choose(data: str, model: Predictor, fresh: Fresh) -> Iterator[ChosenExample]:
    """One example of each kind."""
    predictions = predict(model, fresh)
    shown_labels: set[int] = set()
    for kind in KINDS[data]:
        for index, ranks in _ranks(predictions):
            label = int(predictions.labels["action"][index])
            if label not in shown_labels and kind.holds(ranks):
                example = _example(data, kind, model, fresh, index)
                if kind.looks(example.weights()):
                    shown_labels.add(label)
                    yield example
                    break
        else:
            raise SystemExit(f"no clip of {data} is {kind.rule}: make more clips")


def _example(data: str, kind: Kind, model: Predictor, fresh: Fresh, index: int) -> ChosenExample:
    clip = stream_clip(model, fresh, "val", index)
    examples = fresh.annotations.split("val").examples
    this, reach = examples[index], -float(clip.times[0])
    others = tuple(
        (clip.names[other.labels["action"]], round(this.start - other.start, 2))
        for other in examples
        if data == "kitchen" and other.video == this.video and 0 < this.start - other.start <= reach
    )
    return ChosenExample(data, kind, clip, others)


def _ranks(predictions: Predictions) -> Iterator[tuple[int, Ranks]]:
    """Of the examples of which every position was seen."""
    scores, labels = predictions.scores["action"], predictions.labels["action"]
    for index in torch.nonzero(scores.isfinite().all(-1).all(-1)).flatten().tolist():
        ours = scores[index, :, int(labels[index])]
        places = 1 + (scores[index] > ours[:, None]).sum(-1)
        yield index, dict(zip(predictions.positions, places.tolist(), strict=True))


def numbers(example: ChosenExample) -> dict[str, Any]:
    """What the picture of an example shows."""
    clip, now = example.clip, example.column(example.kind.at)
    weights, order = example.weights(), len(example.weights())
    states = [
        {"seconds": round(float(clip.times[now - order + j]), 2), "weight": round(float(weights[j]), 3)}
        | _hottest(example.spatial[now, j])
        for j in range(max(0, order - now), order)
    ]
    return {
        "id": clip.id,
        "kind": example.kind.name,
        "rule": example.kind.rule,
        "picture": picture_name(example),
        "truth": clip.names[example.label],
        "frames": len(clip.frames),
        **({"others": [list(other) for other in example.others]} if example.anticipation else {}),
        "answers": {
            example.name(position): {
                "best": [[clip.names[i], round(probability, 3)] for i, probability in example.best(position)],
                "truth": round(float(clip.probabilities[example.column(position), example.label]), 3),
            }
            for position in POSITIONS[example.data]
        },
        "attention": {
            "at": example.name(example.kind.at),
            "seconds": round(float(clip.times[now]), 2),
            "layers": dict(zip(("temporal", "spatial"), LAYERS[example.data], strict=True)),
            "most": states[int(weights[-len(states) :].argmax())],
            "states": states,
        },
    }


def _hottest(heat: torch.Tensor) -> dict[str, Any]:
    """The centre of the maximum of a map (h, w), from the left and from the top, in 0..1; and the share of its cells
    that have more than half of the maximum."""
    y, x = divmod(int(heat.argmax()), heat.shape[1])
    place = {"x": round((x + 0.5) / heat.shape[1], 2), "y": round((y + 0.5) / heat.shape[0], 2)}
    even = bool(heat.max() - heat.min() < EVEN * heat.max())
    hot = (heat > heat.max() / 2).double().mean()
    return {"hottest": None if even else place, "hot": round(float(hot), 2)}


def picture_name(example: ChosenExample) -> str:
    return f"{example.data}_{example.kind.name}.svg"


def figures(example: ChosenExample) -> list[Figure]:
    """Probabilities over time, the top 3 at some positions, and the attention at one of them."""
    clip, at = example.clip, example.kind.at
    count, seconds = len(clip.frames), clip.times.tolist()
    times = seconds if example.anticipation else [100 * (i + 1) / count for i in range(count)]
    what = "action" if example.anticipation else "clip"
    where = f"{at:g} s before the action" if example.anticipation else f"after {100 * at:g}% of the clip"
    temporal, spatial = LAYERS[example.data]
    layers = f"layer {temporal}" if temporal == spatial else f"temporal: layer {temporal}, spatial: layer {spatial}"
    common: dict[str, Any] = {"probabilities": clip.probabilities, "names": clip.names, "truth": example.label}
    return [
        _heading(f"{clip.names[example.label]}: {example.kind.rule} ({what} {clip.id})"),
        viz.timeline(
            times=times,
            frames=clip.frames,
            marks=[times[example.column(position)] for position in POSITIONS[example.data]],
            x_name="seconds before the action" if example.anticipation else "% of the clip observed",
            width=WIDTH,
            **common,
        ),
        _top(example),
        _heading(f"Attention {where} ({layers} of {len(clip.temporal)})"),
        viz.attention(
            clip.frames,
            example.temporal,
            example.spatial,
            at=example.column(at),
            times=seconds,
            parts=clip.parts,
            **common,
        ),
    ]


@style.styled
def _heading(text: str) -> Figure:
    figure, axes = style.new_canvas(WIDTH, 20, text)
    style.put(axes, 0, 14, text, style.INK, size=13, weight="bold", limit=WIDTH)
    return figure


@style.styled
def _top(example: ChosenExample) -> Figure:
    """A column for each position: its frame and the most likely classes."""
    positions, clip = POSITIONS[example.data], example.clip
    height, width = clip.frames[0].shape[:2]
    frame = LARGE * height / width if example.anticipation else 0.0  # a kitchen is too small to see in the timeline
    figure, axes = style.new_canvas(WIDTH, 26 + frame + 18 * TOP, "most likely actions")
    room = WIDTH / len(positions)
    for x, position in zip(np.arange(len(positions)) * room, positions, strict=True):
        title = f"{position:g} s before" if example.anticipation else f"{100 * position:g}% observed"
        style.put(axes, x, 12, title, style.INK, weight="bold")
        if frame:
            style.put_image(axes, clip.frames[example.column(position)], x, 18, LARGE, frame)
        for row, (index, probability) in enumerate(example.best(position)):
            y, right = 36 + frame + 18 * row, index == example.label
            bar = Rectangle((x, y - 12), (room - 16) * probability, 15, color=style.SERIES[0], alpha=0.18, linewidth=0)
            axes.add_patch(bar)
            name = f"{'✓' if right else '✗'} {clip.names[index]}"
            style.put(axes, x + 3, y, name, style.RIGHT if right else style.WRONG, limit=room - 60)
            style.put(axes, x + room - 18, y, f"{100 * probability:.0f}%", style.INK, ha="right")
    return figure


def main() -> None:
    found: dict[str, Any] = {}
    for data in KINDS:
        with tempfile.TemporaryDirectory() as folder:
            model = open_model(data)
            made = {"clips": CLIPS} if data == "somethings" else {"videos": VIDEOS}
            if data == "somethings":
                fresh = fresh_somethings(Path(folder) / data, CLIPS, SEED)
            else:
                fresh = fresh_kitchen(Path(folder) / data, VIDEOS, SEED, model.size)
            size = list(clip_for(fresh, model).size)
            examples = list(choose(data, model, fresh))
        for example in examples:
            write_text(FOLDER / picture_name(example), style.svg(*figures(example)) + "\n")
        found[data] = {**made, "seed": SEED, "size": size, "examples": [numbers(e) for e in examples]}
    for file in FOLDER.iterdir():
        if file.name not in {entry["picture"] for part in found.values() for entry in part["examples"]}:
            file.unlink()
    text = json.dumps(found, indent=1, ensure_ascii=False)
    text = re.sub(r"[\[{][^\[\]{}]*[\]}]", lambda inner: re.sub(r"\s+", " ", inner[0]), text)  # one line per state
    write_text(NUMBERS, text + "\n")


if __name__ == "__main__":
    main()
