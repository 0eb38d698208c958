"""Whether a model is as often right as it is sure: the reliability diagram.

Shapes: N examples, C classes.
"""

from __future__ import annotations

from typing import Any

import torch

from horst.evaluation.metrics import BINS, calibration_bins
from horst.viz.chart import Axis, Line, draw_axes, draw_lines, percent_axis
from horst.viz.figure import Figure
from horst.viz.svg import Canvas


def reliability(probabilities: Any, labels: Any, *, bins: int = BINS, title: str = "", width: float = 420) -> Figure:
    """Accuracy of the answers by their confidence, the expected calibration error, and how often each confidence is.

    Args:
        probabilities: (N, C); rows of zeros say nothing and are left out.
        labels: (N,) true classes; -1 is unknown and left out.
        bins: Of confidence.
        title: Above it.
        width: In pixels.
    """
    scores = torch.as_tensor(probabilities).double().log()
    found = calibration_bins(scores, torch.as_tensor(labels), bins)
    canvas = Canvas(width, width + 26)
    top, bottom = 46.0, width - 88
    quarters = percent_axis().ticks
    box = draw_axes(canvas, Axis(0, 1, quarters), Axis(0, 1, quarters), top=top, bottom=bottom)
    total = sum(found.count)
    for i, (n, sure, right) in enumerate(zip(found.count, found.confidence, found.right, strict=True)):
        if n:
            low, high = sorted((right / n, sure / n))
            (x0, y_low), (x1, y_high) = box.at(i / bins, low), box.at((i + 1) / bins, high)
            tip = f"{n} answers, {100 * sure / n:.1f}% sure, {100 * right / n:.1f}% right"
            canvas.rect(x0 + 1, y_low, x1 - x0 - 2, max(0.0, bottom - y_low), "f0", opacity=0.85, tip=tip)
            over = "fw" if sure > right else "f3"
            canvas.rect(x0 + 1, y_high, x1 - x0 - 2, y_low - y_high, over, opacity=0.4, tip=tip)
    draw_lines(canvas, box, [Line("", [(0, 0), (1, 1)], "5", width=1.2, dash="4 4")])
    accuracy, confidence = sum(found.right) / total, sum(found.confidence) / total
    canvas.text(0, 13, title or "reliability", "ink bold", size=12)
    canvas.text(box.right, 13, f"calibration error {100 * found.error:.1f}%", "ink", anchor="end")
    canvas.text(0, 31, "accuracy by confidence")
    canvas.text(box.right, 31, f"right {100 * accuracy:.1f}%, sure {100 * confidence:.1f}%", anchor="end")
    tall, base = 52.0, width - 6
    most = max(found.count)
    for i, n in enumerate(found.count):
        x0, x1 = box.at(i / bins, 0)[0], box.at((i + 1) / bins, 0)[0]
        canvas.rect(
            x0 + 1, base - tall * n / most, x1 - x0 - 2, tall * n / most, "f5", opacity=0.6, radius=1, tip=str(n)
        )
    canvas.line(box.left, base, box.right, base, "axis")
    canvas.text(box.left - 6, base - tall + 8, str(most), anchor="end")
    canvas.text((box.left + box.right) / 2, base + 17, f"confidence of {total} answers", anchor="middle")
    return canvas.figure(f"reliability diagram, expected calibration error {100 * found.error:.1f}%")
