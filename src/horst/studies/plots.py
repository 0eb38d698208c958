"""The plots of a study: accuracy and calibration over positions with a band over seeds, differences with intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from horst.evaluation.formatting import SECONDS, metric_title
from horst.evaluation.predictions import position_name
from horst.studies.compare import Row
from horst.studies.config import Study
from horst.studies.outcomes import Sample
from horst.viz.chart import Axis, Line, draw_axes, draw_lines, number_axis, percent_axis
from horst.viz.figure import Figure
from horst.viz.svg import MINUS, SERIES, Canvas, text_width

KIND = {"recognition": "action/top1", "anticipation": "action/top5"}
WIDTH, HEIGHT = 640.0, 320.0
LINE = 17.0
"""Pixels from one run to the next."""


def curves(study: Study, found: Mapping[str, Sequence[Sample]], kind: str = "") -> Figure | None:
    """A metric over the observed part of a clip or the time before the action, by default top-1 there and top-5 here:
    the mean over seeds, and a band from the lowest to the highest. None where it is known at fewer than two places."""
    if not found:
        return None
    first = next(iter(found.values()))[0].predictions
    kind = kind or KIND[first.task]
    keys = {place: f"{kind}@{position_name(first.task, place)}" for place in first.positions}
    lines, bands = [], []
    for number, run in enumerate(study.runs):  # of the same colour, whichever others are done
        several = found.get(run.name, ())
        there = all(math.isfinite(sample.metrics.get(key, math.nan)) for sample in several for key in keys.values())
        if len(keys) < 2 or not several or not there:
            continue
        values = {place: [sample.metrics[key] for sample in several] for place, key in keys.items()}
        points = [(place, sum(seeds) / len(seeds)) for place, seeds in values.items()]
        colour, dash = str(number % SERIES), "6 4" if number >= SERIES else ""
        lines.append(Line(f"{run.label} {100 * points[-1][1]:.1f}%", points, colour, dash=dash))
        if len(several) > 1:
            bands.append((colour, [(place, min(seeds), max(seeds)) for place, seeds in values.items()]))
    if not lines:
        return None
    highest = max([value for line in lines for _, value in line.points] + [top for _, b in bands for *_, top in b])
    canvas = Canvas(WIDTH, HEIGHT)
    if first.task == "recognition":
        x = Axis(0, 1, percent_axis().ticks, "observed part of the clip")
    else:
        longest = max(first.positions)
        x = Axis(longest, 0, [(i / 2, f"{i / 2:g}") for i in range(int(2 * longest) + 1)], "seconds before the action")
    y = percent_axis("", 1.0 if highest > 0.55 else max(0.05, 1.1 * highest))
    box = draw_axes(canvas, x, y, top=44, bottom=HEIGHT - 38, names=[line.name for line in lines])
    title = f"{study.title}: {metric_title(kind)}"
    canvas.text(0, 13, title, "ink bold", size=12, limit=WIDTH)
    canvas.text(0, 30, "mean over seeds; band: from the lowest to the highest" if bands else "a single seed")
    for colour, band in bands:
        around = [box.at(place, top) for place, _, top in band] + [box.at(place, low) for place, low, _ in band[::-1]]
        steps = "M" + "L".join(f"{px:.1f},{py:.1f}" for px, py in around) + "Z"
        canvas.path(steps, f"f{colour}", opacity=0.15)
    draw_lines(canvas, box, lines)
    return canvas.figure(title)


def differences(rows: Sequence[Row], metrics: Sequence[str], named: Callable[[str], str]) -> Figure | None:
    """Each difference as a dot with its interval, one block a metric; None where nothing is compared."""
    titles = {row.name: row.title for row in rows}
    names = {row.name: f"{row.title} {MINUS} {titles.get(row.against or '', row.against)}" for row in rows}
    blocks: list[tuple[str, list[tuple[str, bool, float, float, float]]]] = []
    for metric in metrics:
        if metric.endswith(SECONDS):  # seconds have no place on an axis of per cent
            continue
        told = [
            (names[row.name], gap.sure, gap.value, gap.low, gap.high)
            for row in rows
            if (gap := row.differences.get(metric)) is not None and gap.low is not None and gap.high is not None
        ]
        if told:
            blocks.append((named(metric), told))
    if not blocks:
        return None
    ends = [100 * value for _, told in blocks for *_, low, high in told for value in (low, high)]
    height = sum(LINE * (len(told) + 2) for _, told in blocks) + 70
    canvas = Canvas(WIDTH, height)
    room = min(300.0, max(text_width(name) for _, told in blocks for name, *_ in told) + 12)
    x = number_axis([*ends, 0.0], "difference in per cent, interval of 95%")

    def at(value: float) -> float:
        return room + x.share(100 * value) * (WIDTH - 16 - room)

    canvas.text(0, 13, "Differences", "ink bold", size=12)
    bottom = height - 38
    for value, name in x.ticks:
        canvas.line(at(value / 100), 26, at(value / 100), bottom, "mark" if value == 0 else "grid")
        canvas.text(at(value / 100), bottom + 16, name, anchor="middle")
    canvas.text((room + WIDTH - 16) / 2, bottom + 32, x.name, anchor="middle")
    place = 26.0
    for title, told in blocks:
        place += LINE
        canvas.text(0, place + 4, title, "ink")
        for name, sure, value, low, high in told:
            place += LINE
            colour = "0" if sure else "5"  # whether more is better depends on the metric
            canvas.text(0, place + 4, name, limit=room - 10)
            canvas.curve([(at(low), place), (at(high), place)], f"s{colour}")
            canvas.dot(at(value), place, f"f{colour}", 3.4)
        place += LINE
    return canvas.figure("differences between runs")
