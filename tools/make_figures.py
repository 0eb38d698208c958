"""Draws docs/images/attention.svg and docs/images/timeline.svg, a clip of which the model changes its mind:

python tools/make_figures.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import horst
from horst import viz
from horst.evaluation.evaluate import predict
from horst.synth.fresh import fresh_somethings
from horst.viz.choice import chosen
from horst.viz.streamed import stream


def main() -> None:
    here = Path(__file__).resolve().parents[1] / "docs" / "images"
    model = horst.open_model("somethings")
    with tempfile.TemporaryDirectory() as folder:
        fresh = fresh_somethings(folder, clips=48, seed=1000)
        choices = chosen(predict(model, fresh), 6)
        index = next(choice.index for choice in choices if choice.why == "changed its mind")
        clip = stream(model, fresh, "val", index)
    times, now = clip.times.tolist(), len(clip.frames) - 5
    shared: dict[str, Any] = {"probabilities": clip.probabilities, "names": clip.names, "truth": clip.label}
    look = viz.attention(clip.frames, clip.temporal, clip.spatial, at=now, times=times, **shared)
    look.save(here / "attention.svg")
    said = viz.timeline(clip.probabilities, times, clip.names, clip.label, frames=clip.frames, marks=[times[now]])
    said.save(here / "timeline.svg")


if __name__ == "__main__":
    main()
