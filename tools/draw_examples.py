"""Draws the examples of docs/results/index.md, and writes what they show as numbers:

python tools/draw_examples.py     # docs/images/examples/*.svg and docs/results/examples.json; minutes

The package's two models watch clips that they have never seen, those of `horst demo`. Of each kind in examples_kinds.py
it is the first clip in the order of the data, of an action that no kind before it has shown.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from examples_kinds import KINDS, POSITIONS, Kind, Ranks
from numpy.typing import NDArray
from PIL import Image as Pictures

from horst import open_model, viz
from horst.data.example import Task
from horst.evaluation.evaluate import clip_for, predict
from horst.evaluation.predictions import Predictions, position_name
from horst.io import write_text
from horst.models import Predictor
from horst.synth.fresh import Fresh, fresh_kitchen, fresh_somethings
from horst.video.sampling import observed_frames
from horst.viz.picture import Image, picture
from horst.viz.streamed import Streamed, stream
from horst.viz.svg import Canvas, fit

HERE = Path(__file__).resolve().parents[1] / "docs"
FOLDER, NUMBERS = HERE / "images" / "examples", HERE / "results" / "examples.json"
SEED, CLIPS, VIDEOS = 1000, 96, 4
"""As `horst demo` has them, but for the videos, of which it draws more."""
BEST = 3
"""Answers that are told at a position."""
WIDE = 1011.0
"""Pixels: so wide is attention with eight past frames."""
LAYERS = {"somethings": (3, 3), "kitchen": (3, 2)}
"""Whose temporal and whose spatial attention is drawn, of three: kitchen's third looks everywhere alike."""
EVEN = 0.02
"""A map that varies by less than this part of its height has no hottest place."""
FRAME, LARGE = 88, 168
"""Pixels: wider frames are drawn at this width, which keeps the files small; those above the answers are larger."""


@dataclass(frozen=True, slots=True)
class Example:
    """A clip that was chosen."""

    data: str
    kind: Kind
    clip: Streamed
    tau: bool
    """Positions are seconds before the action, and not observed parts."""
    others: tuple[tuple[str, float], ...] = ()
    """The actions that start while the model watches: name, and seconds before the one that is asked for."""

    def column(self, position: float) -> int:
        """The frame at which a position is read off."""
        count = len(self.clip.frames)
        step = float(self.clip.times[1] - self.clip.times[0])
        return count - round(position / step) if self.tau else observed_frames(count, position) - 1

    def best(self, position: float) -> list[tuple[int, float]]:
        """(class, probability) of the likeliest."""
        chances = self.clip.probabilities[self.column(position)]
        return [(int(i), float(chances[i])) for i in np.argsort(-chances, kind="stable")[:BEST]]

    @property
    def temporal(self) -> torch.Tensor:
        """(T, S), the oldest state first."""
        return self.clip.temporal[LAYERS[self.data][0] - 1][0]

    @property
    def spatial(self) -> torch.Tensor:
        """(T, S, h, w)"""
        return self.clip.spatial[LAYERS[self.data][1] - 1][0]

    def weights(self) -> NDArray[np.float64]:
        """(S,) the temporal attention at the moment that is shown."""
        return self.temporal[self.column(self.kind.at)].double().numpy()


def opened(data: str, folder: Path) -> tuple[Predictor, Fresh]:
    """A model, and what it has never seen."""
    model = open_model(data)
    if data == "somethings":
        return model, fresh_somethings(folder, CLIPS, SEED)
    return model, fresh_kitchen(folder, VIDEOS, SEED, model.size)


def chosen(data: str, model: Predictor, fresh: Fresh) -> Iterator[Example]:
    """One example of each kind."""
    predictions = predict(model, fresh)
    taken: set[int] = set()
    for kind in KINDS[data]:
        for index, ranks in _ranks(predictions):
            label = int(predictions.labels["action"][index])
            if label not in taken and kind.holds(ranks):
                found = _shown(data, kind, model, fresh, index)
                if kind.looks(found.weights()):
                    taken.add(label)
                    yield found
                    break
        else:
            raise SystemExit(f"no clip of {data} is {kind.rule}: draw more")


def _shown(data: str, kind: Kind, model: Predictor, fresh: Fresh, index: int) -> Example:
    clip, tau = stream(model, fresh, "val", index), fresh.annotations.task == "anticipation"
    examples = fresh.annotations.split("val").examples
    this, reach = examples[index], -float(clip.times[0])
    others = tuple(
        (clip.names[other.labels["action"]], round(this.start - other.start, 2))
        for other in examples
        if tau and other.video == this.video and 0 < this.start - other.start <= reach
    )
    return Example(data, kind, clip, tau, others)


def _ranks(predictions: Predictions) -> Iterator[tuple[int, Ranks]]:
    """Of the examples of which every position was seen."""
    scores, labels = predictions.scores["action"], predictions.labels["action"]
    for index in torch.nonzero(scores.isfinite().all(-1).all(-1)).flatten().tolist():
        ours = scores[index, :, int(labels[index])]
        places = 1 + (scores[index] > ours[:, None]).sum(-1)
        yield index, dict(zip(predictions.positions, places.tolist(), strict=True))


def numbers(example: Example) -> dict[str, Any]:
    """What is said of an example, to be read by people and tests."""
    clip, now = example.clip, example.column(example.kind.at)
    weights, order = example.weights(), len(example.weights())
    task: Task = "anticipation" if example.tau else "recognition"
    truth = clip.label
    assert truth is not None
    states = [
        {"seconds": round(float(clip.times[now - order + j]), 2), "weight": round(float(weights[j]), 3)}
        | _looked_at(example.spatial[now, j])
        for j in range(max(0, order - now), order)
    ]
    return {
        "id": clip.id,
        "kind": example.kind.name,
        "rule": example.kind.rule,
        "picture": picture_name(example),
        "truth": clip.names[truth],
        "frames": len(clip.frames),
        **({"others": [list(other) for other in example.others]} if example.tau else {}),
        "answers": {
            position_name(task, position): {
                "best": [[clip.names[i], round(chance, 3)] for i, chance in example.best(position)],
                "truth": round(float(clip.probabilities[example.column(position), truth]), 3),
            }
            for position in POSITIONS[example.data]
        },
        "attention": {
            "at": position_name(task, example.kind.at),
            "seconds": round(float(clip.times[now]), 2),
            "layers": dict(zip(("temporal", "spatial"), LAYERS[example.data], strict=True)),
            "most": states[int(weights[-len(states) :].argmax())],
            "states": states,
        },
    }


def _looked_at(heat: torch.Tensor) -> dict[str, Any]:
    """Where in a frame a map (h, w) is highest: the middle of that cell, from the left and from the top, in 0..1; and
    the share of its cells that have more than half of that."""
    y, x = divmod(int(heat.argmax()), heat.shape[1])
    place = {"x": round((x + 0.5) / heat.shape[1], 2), "y": round((y + 0.5) / heat.shape[0], 2)}
    even = bool(heat.max() - heat.min() < EVEN * heat.max())
    hot = (heat > heat.max() / 2).double().mean()
    return {"hottest": None if even else place, "hot": round(float(hot), 2)}


def picture_name(example: Example) -> str:
    return f"{example.data}_{example.kind.name}.svg"


def figure(example: Example) -> viz.Figure:
    """Frames and answers over time, the three best at some positions, and what was attended to at one moment."""
    clip, kind = example.clip, example.kind
    now, label = example.column(kind.at), clip.label
    assert label is not None
    count, seconds = len(clip.frames), clip.times.tolist()
    times = seconds if example.tau else [100 * (i + 1) / count for i in range(count)]
    frames = [_small(frame) for frame in clip.frames]
    said = viz.timeline(
        clip.probabilities,
        times,
        clip.names,
        label,
        frames=frames,
        marks=[times[example.column(position)] for position in POSITIONS[example.data]],
        x_name="seconds before the action" if example.tau else "% of the clip observed",
        width=WIDE,
    )
    look = viz.attention(
        frames,
        example.temporal,
        example.spatial,
        at=now,
        probabilities=clip.probabilities,
        names=clip.names,
        truth=label,
        times=seconds,
        parts=clip.parts,
    )
    parts = [_heading(example), said, _answers(example), _moment(example), look]
    y, bodies = 0.0, []
    for part in parts:
        bodies.append(f'<g transform="translate(0 {y:.1f})">{part.body}</g>')
        y += part.height + 14
    return viz.Figure(WIDE, y - 14, "".join(bodies), f"{clip.names[label]}: {kind.rule}")


def _small(frame: Image) -> Image:
    height, width = frame.shape[:2]
    if width <= FRAME:
        return frame
    size = FRAME, round(height * FRAME / width)
    return np.asarray(Pictures.fromarray(frame).resize(size, Pictures.Resampling.BOX))


def _heading(example: Example) -> viz.Figure:
    canvas, label = Canvas(WIDE, 36), example.clip.label
    assert label is not None
    canvas.text(0, 14, example.clip.names[label], "ink bold", size=16)
    what = "action" if example.tau else "clip"
    canvas.text(0, 33, f"{what} {example.clip.id}, {example.kind.rule}", size=13)
    return canvas.figure("")


def _moment(example: Example) -> viz.Figure:
    canvas, at = Canvas(WIDE, 16), example.kind.at
    where = f"{at:g} s before the action" if example.tau else f"when {100 * at:g}% of the clip has been observed"
    temporal, spatial = LAYERS[example.data]
    layers = f"layer {temporal}" if temporal == spatial else f"in time layer {temporal}, in space layer {spatial}"
    canvas.text(0, 13, f"What it attends to {where} ({layers} of {len(example.clip.temporal)})", "ink bold", size=13)
    return canvas.figure("")


def _answers(example: Example) -> viz.Figure:
    """A column for each position: its frame, and its likeliest answers."""
    positions, clip = POSITIONS[example.data], example.clip
    height, width = clip.frames[0].shape[:2]
    tall = 6 + LARGE * height / width if example.tau else 0.0  # a kitchen is too small to see in the strip above
    canvas = Canvas(WIDE, 20.0 + tall + 18 * BEST)
    room = WIDE / len(positions)
    for number, position in enumerate(positions):
        x = number * room
        title = f"{position:g} s before" if example.tau else f"{100 * position:g}% observed"
        canvas.text(x, 12, title, "ink bold", size=12)
        if tall:
            canvas.image(x, 18, LARGE, tall - 6, picture(clip.frames[example.column(position)], LARGE))
        for row, (index, chance) in enumerate(example.best(position)):
            y, mark = 32.0 + tall + 18 * row, "right" if index == clip.label else "wrong"
            canvas.rect(x, y - 12, (room - 16) * chance, 15, "f0", opacity=0.18, radius=2)
            name = fit(clip.names[index], room - 60, 12)
            canvas.words(x + 3, y, [("✓" if mark == "right" else "✗", mark), (name, mark)], 12)
            canvas.text(x + room - 18, y, f"{100 * chance:.0f}%", "ink", anchor="end", size=12)
    return canvas.figure("")


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    told: dict[str, Any] = {}
    for data in KINDS:
        with tempfile.TemporaryDirectory() as folder:
            model, fresh = opened(data, Path(folder) / data)
            clip = clip_for(fresh, model)
            examples = list(chosen(data, model, fresh))
        for example in examples:
            figure(example).save(FOLDER / picture_name(example))
        drawn = {"clips": CLIPS} if data == "somethings" else {"videos": VIDEOS}
        told[data] = {**drawn, "seed": SEED, "size": list(clip.size), "examples": [numbers(e) for e in examples]}
    for file in FOLDER.iterdir():
        if file.name not in {entry["picture"] for part in told.values() for entry in part["examples"]}:
            file.unlink()
    text = json.dumps(told, indent=1, ensure_ascii=False)
    text = re.sub(r"[\[{][^\[\]{}]*[\]}]", lambda inner: re.sub(r"\s+", " ", inner[0]), text)  # one line for each state
    write_text(NUMBERS, text + "\n")


if __name__ == "__main__":
    main()
