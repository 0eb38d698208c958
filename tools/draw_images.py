"""Draws the images of README.md and docs/guides/viz.md:

python tools/draw_images.py              # all of docs/images/{attention,timeline}.svg, made.jpg and predict.webp
python tools/draw_images.py predict      # one of figures, sheet, predict
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

import horst
from horst import viz
from horst.evaluation.evaluate import predict as run_model
from horst.synth import kitchen, somethings
from horst.synth.fresh import fresh_somethings
from horst.video import VideoFile
from horst.viz.clips import choose_clips, stream_clip

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
SEED = 1000
"""The models of the package were trained with seed 0."""
COLUMNS, GAP, TEXT = 7, 4, 22
"""Of the sheet: frames in a row, pixels between rows, and for a caption."""


def figures() -> None:
    """attention.svg and timeline.svg: a clip whose top class changes."""
    model = horst.open_model("somethings")
    with tempfile.TemporaryDirectory() as folder:
        fresh = fresh_somethings(folder, clips=48, seed=SEED)
        chosen = choose_clips(run_model(model, fresh), 6)
        clip = stream_clip(model, fresh, "val", next(index for index, kind in chosen if kind == "changed"))
    times, now = clip.times.tolist(), len(clip.frames) - 5
    common: dict[str, Any] = {"probabilities": clip.probabilities, "names": clip.names, "truth": clip.label}
    look = viz.attention(clip.frames, clip.temporal, clip.spatial, at=now, times=times, **common)
    viz.save_svg(look, IMAGES / "attention.svg")
    over_time = viz.timeline(times=times, frames=clip.frames, marks=[times[now]], **common)
    viz.save_svg(over_time, IMAGES / "timeline.svg")


def sheet() -> None:
    """made.jpg: clips of the two synthetic data sets."""
    rows = []
    wanted = ("Pretending to put", "Pushing [something] so that it falls", "Throwing")
    chosen = {t: s for s in reversed(somethings.plan(200, 3)) for t in wanted if s.template.startswith(t)}
    for template in wanted:
        clip = somethings.render(chosen[template], size=224)
        picks = np.linspace(0, len(clip) - 1, COLUMNS).round().astype(int)
        rows.append(_row([clip[i] for i in picks], f"somethings: {chosen[template].label}", 160))
    video = kitchen.plan(2, 5)[0]
    segment = video.segments[6]
    frames = list(kitchen.render(video, size=(216, 384)))
    picks = ((segment.start + np.linspace(-2.0, 1.0, 4)) * kitchen.FPS).astype(int)
    caption = f'kitchen: 2 s before "{segment.narration}", 1 s before, at its start, 1 s later'
    width = rows[0].width
    height = round(160 * width / _row([frames[i] for i in picks], caption, 160).width)
    rows.append(_row([frames[i] for i in picks], caption, height))
    page = Image.new("RGB", (width, sum(row.height + 6 for row in rows)), "white")
    y = 0
    for row in rows:
        page.paste(row, (0, y))
        y += row.height + 6
    page.save(IMAGES / "made.jpg", quality=82)


def _row(frames: list[np.ndarray], caption: str, height: int) -> Image.Image:
    images = [Image.fromarray(frame) for frame in frames]
    images = [i.resize((round(i.width * height / i.height), height), Image.Resampling.LANCZOS) for i in images]
    row = Image.new("RGB", (sum(i.width for i in images) + GAP * (len(images) - 1), height + TEXT), "white")
    ImageDraw.Draw(row).text((2, 3), caption, fill=(60, 60, 70), font=ImageFont.load_default(15))
    x = 0
    for image in images:
        row.paste(image, (x, TEXT))
        x += image.width + GAP
    return row


def predict() -> None:
    """predict.webp: what `horst predict --render` makes of a synthetic clip, smaller and at half speed."""
    with tempfile.TemporaryDirectory() as folder:
        made, video = Path(folder) / "made", Path(folder) / "out.mp4"
        for command in (
            ["data", "make", "somethings", str(made), "--clips", "24", "--seed", str(SEED)],
            ["predict", "somethings", str(made / "videos" / "1.webm"), "--render", str(video)],
        ):
            subprocess.run(["horst", *command], check=True)
        with VideoFile(video) as file:
            frames = list(file.frames())
    images = [Image.fromarray(frame.image).resize((800, 450), Image.Resampling.LANCZOS) for frame in frames]
    pause = round(2 * 1000 * (frames[1].time - frames[0].time))
    durations = [pause] * (len(images) - 1) + [3000]  # half speed; the end stays for a while
    more: dict[str, Any] = {"append_images": images[1:], "duration": durations, "loop": 0, "quality": 70, "method": 6}
    images[0].save(IMAGES / "predict.webp", save_all=True, **more)


if __name__ == "__main__":
    drawings = {"figures": figures, "sheet": sheet, "predict": predict}
    for name in sys.argv[1:] or drawings:
        drawings[name]()
