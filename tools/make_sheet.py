"""Draws docs/images/made.jpg, a look at the two data sets that the package makes: `python tools/make_sheet.py`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from horst.synth import kitchen, somethings

COLUMNS, GAP, TEXT = 7, 4, 22


def row(frames: list[np.ndarray], caption: str, height: int) -> Image.Image:
    pictures = [Image.fromarray(f) for f in frames]
    pictures = [p.resize((round(p.width * height / p.height), height), Image.Resampling.LANCZOS) for p in pictures]
    width = sum(p.width for p in pictures) + GAP * (len(pictures) - 1)
    sheet = Image.new("RGB", (width, height + TEXT), "white")
    ImageDraw.Draw(sheet).text((2, 3), caption, fill=(60, 60, 70), font=ImageFont.load_default(15))
    x = 0
    for picture in pictures:
        sheet.paste(picture, (x, TEXT))
        x += picture.width + GAP
    return sheet


def main() -> None:
    rows = []
    wanted = ("Pretending to put", "Pushing [something] so that it falls", "Throwing")
    chosen = {t: s for s in reversed(somethings.plan(200, 3)) for t in wanted if s.template.startswith(t)}
    for template in wanted:
        clip = somethings.render(chosen[template], size=224)
        picks = [int(i) for i in np.linspace(0, len(clip) - 1, COLUMNS).round()]
        rows.append(row([clip[i] for i in picks], f"somethings: {chosen[template].label}", 160))
    video = kitchen.plan(2, 5)[0]
    segment = video.segments[6]
    frames = list(kitchen.render(video, size=(216, 384)))
    times = segment.start + np.linspace(-2.0, 1.0, 4)
    picks = [int(t * kitchen.FPS) for t in times]
    width = rows[0].width
    caption = f'kitchen: 2 s before "{segment.narration}", 1 s before, at its start, 1 s later'
    kitchen_row = row([frames[i] for i in picks], caption, 160)
    rows.append(row([frames[i] for i in picks], caption, round(160 * width / kitchen_row.width)))
    sheet = Image.new("RGB", (width, sum(r.height + 6 for r in rows)), "white")
    y = 0
    for picture in rows:
        sheet.paste(picture, (0, y))
        y += picture.height + 6
    sheet.save(Path(__file__).resolve().parents[1] / "docs" / "images" / "made.jpg", quality=82)


if __name__ == "__main__":
    main()
