"""The plots of a study: metrics over positions with a band over seeds, and differences with intervals."""

import math
import re
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from horst.evaluation.report import MINUS, SECONDS, metric_title
from horst.studies.compare import StudyRow
from horst.viz import style


@style.styled
def curves(
    title: str,
    labels: Mapping[str, str],  # of all runs, by name: a run has the same colour whichever others are done
    found: Mapping[str, Sequence[Mapping[str, float]]],  # metrics of each seed, by run
    kind: str = "",  # the metric; by default top-1 for recognition and top-5 for anticipation
) -> Figure | None:
    """A metric over the observed part of a clip or over the time before the action.

    The curve is the mean over seeds, the band reaches from the lowest to the highest. A run that lacks a value has no
    curve; None if no run has one.
    """
    keys = [key for seeds in found.values() for key in seeds[0]]
    recognition = any(key.endswith("%") for key in keys)
    kind = kind or ("action/top1" if recognition else "action/top5")
    matches = (re.fullmatch(rf"{kind}@([\d.]+)([%s])", key) for key in keys)
    places = {match[0]: float(match[1]) / (100 if match[2] == "%" else 1) for match in matches if match}
    figure, axes = style.new_chart(f"{title}: {metric_title(kind)}", width=640, height=320)
    for number, (run, label) in enumerate(labels.items()):
        seeds = found.get(run, ())
        values = [[seed.get(key, math.nan) for seed in seeds] for key in places]
        if len(places) < 2 or not seeds or not np.isfinite(values).all():
            continue
        mean = [sum(several) / len(several) for several in values]
        colour, dash = style.SERIES[number % len(style.SERIES)], "-" if number < len(style.SERIES) else (0, (3, 2))
        axes.plot(list(places.values()), mean, color=colour, linestyle=dash, label=f"{label} {100 * mean[-1]:.1f}%")
        if len(seeds) > 1:
            band = [min(several) for several in values], [max(several) for several in values]
            axes.fill_between(list(places.values()), *band, color=colour, alpha=0.15, linewidth=0)
    if not axes.lines:
        return None
    style.position_axis(axes, recognition=recognition)
    style.percent_axis(axes)
    axes.set_ylabel("mean over seeds; band: lowest to highest" if axes.collections else "one seed")
    style.name_curves(axes)
    return figure


@style.styled
def differences(rows: Sequence[StudyRow], metrics: Sequence[str], name: Callable[[str], str]) -> Figure | None:
    """Each difference as a dot with its interval, one block per metric; None where nothing is compared."""
    titles = {row.name: row.title for row in rows}
    labels: list[str] = []
    figure, axes = style.new_chart("Differences", width=640, label="differences between runs")
    for metric in metrics:
        found = [] if metric.endswith(SECONDS) else [(row, row.differences.get(metric)) for row in rows]  # no per cent
        shown = [
            (row, gap, 100 * np.array([[gap.value - gap.low], [gap.high - gap.value]]))
            for row, gap in found
            if gap and gap.low is not None and gap.high is not None
        ]
        if not shown:
            continue
        labels += ["", name(metric)] if labels else [name(metric)]
        for row, gap, interval in shown:
            colour = style.SERIES[0 if gap.significant else 5]  # whether more is better depends on the metric
            axes.errorbar(100 * gap.value, len(labels), xerr=interval, fmt="o", markersize=6.5, color=colour)
            baseline = titles.get(row.against or "", row.against)
            labels.append(style.fit(f"{row.title} {MINUS} {baseline}", 290))
    if not labels:
        return None
    figure.set_figheight((17 * len(labels) + 80) / 72)
    axes.set_yticks(range(len(labels)), labels)
    axes.set(ylim=(len(labels) - 0.4, -0.6), xlabel="percentage points, with 95% interval; blue: significant")
    axes.grid(axis="y", visible=False)
    axes.grid(axis="x", visible=True)
    axes.axvline(0, color=style.AXIS, linestyle=(0, (2, 3)), linewidth=1)
    for label in axes.get_yticklabels():
        if label.get_text() in map(name, metrics):
            label.set(color=style.INK, weight="bold")
    return figure
