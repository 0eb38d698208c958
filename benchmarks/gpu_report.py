"""Writes the timings of `benchmarks.gpu` into docs/reference/performance.md, and draws their charts.

    python -m benchmarks.gpu --slow --json docs/reference/gpu.json    # on the GPU
    python -m benchmarks.gpu_report                         # anywhere

The part of the page between its two marks is replaced.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from horst.io import write_text
from horst.viz import save_svg, style

DOCS = Path(__file__).parents[1] / "docs"
START = "<!-- from docs/reference/gpu.json: python -m benchmarks.gpu_report -->"
END = "<!-- end of docs/reference/gpu.json -->"


def main() -> None:
    figures = json.loads((DOCS / "reference" / "gpu.json").read_text())
    page = DOCS / "reference" / "performance.md"
    write_text(page, replace_section(page.read_text(), markdown(figures)))
    for name, figure in charts(figures["scaling"]).items():
        save_svg(figure, DOCS / "images" / name)


def replace_section(page: str, text: str) -> str:
    """The page with `text` between its marks."""
    before, rest = page.split(START, 1)
    return f"{before}{START}\n\n{text}\n{END}{rest.split(END, 1)[1]}"


def markdown(figures: dict[str, Any]) -> str:
    """All timings in Markdown."""
    limits = figures["ceilings"]
    parts = [
        "<!-- not run: it needs an NVIDIA GPU -->\n```console\n"
        f"$ {figures['command']}        # {figures['gpu']}, torch {figures['torch']}, {figures['date']}\n```",
        f"Ceilings in the same run: a copy moves {limits['copy']:.2f} TB/s (read and written), a bf16 matrix product "
        f"of 8192 runs at {limits['matmul']:.0f} TFLOP/s.",
        table(
            ("parity", "float32, worst tensor", "bf16: y", "plain PyTorch's", "all gradients", "plain PyTorch's"),
            (
                (row["variant"], *(f"{row[k]:.1e}" for k in ("exact", "y", "plain_y", "gradient", "plain_gradient")))
                for row in figures["parity"]
            ),
        ),
    ]
    parts += [_network(name, list(rows)) for name, rows in itertools.groupby(figures["train"], lambda r: r["network"])]
    parts.append(
        table(
            ("SSv2 network, frames of 224x224, streams", "plain PyTorch", "kernels, one CUDA graph", "p95", "frames/s"),
            (
                (
                    f"{row['streams']}",
                    *(f"{row[k]:.2f} ms" for k in ("plain_ms", "ms", "p95")),
                    f"{1e3 * row['streams'] / row['ms']:,.0f}",
                )
                for row in figures["stream"]
            ),
        )
    )
    frames = sorted({row["frames"] for row in figures["scaling"]})
    by = {(row["order"], row["frames"]): row["ms"] for row in figures["scaling"]}
    parts.append(
        table(
            ("a layer of 256 channels, 8 clips of 28x28, ms a step", *(f"T = {t}" for t in frames)),
            (
                (f"S = {s}", *(f"{by[s, t]:.2f}" for t in frames))
                for s in sorted({row["order"] for row in figures["scaling"]})
            ),
        )
    )
    parts.append(" ".join(f"![{name}](../images/{name})" for name in charts(figures["scaling"])))
    return "\n\n".join(parts) + "\n"


def _network(name: str, rows: Sequence[dict[str, Any]]) -> str:
    slowest, floor = rows[0], rows[0]["floor_ms"]
    return table(
        (f"{name}, a training step", "ms", "GiB", "x floor", f"{slowest['kind']} / it"),
        [
            *(
                (
                    row["kind"],
                    f"{row['ms']:.1f}",
                    f"{row['gib']:.1f}",
                    f"{row['ms'] / floor:.2f}",
                    f"{slowest['ms'] / row['ms']:.1f}",
                )
                for row in rows
            ),
            ("floor", f"{floor:.1f}", "", "1", f"{slowest['ms'] / floor:.1f}"),
        ],
    )


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def charts(rows: Sequence[dict[str, Any]]) -> dict[str, Figure]:
    """Cost over the frames, a line for each S, and over S, a line for each number of frames."""
    return {
        "gpu_frames.svg": _over(rows, "frames", "order", "T, frames of a clip", "S"),
        "gpu_order.svg": _over(rows, "order", "frames", "S, states in the queue", "T"),
    }


@style.styled
def _over(rows: Sequence[dict[str, Any]], x: str, other: str, name: str, short: str) -> Figure:
    figure, axes = style.new_chart("", width=430, label=f"milliseconds per step over {name}")
    for value in sorted({row[other] for row in rows}, reverse=True):
        points = sorted((row[x], row["ms"]) for row in rows if row[other] == value)
        axes.plot(*zip(*points, strict=True), marker="o", label=f"{short} = {value}", clip_on=False)
    places = sorted({row[x] for row in rows})
    axes.set(xticks=places, xlim=(0, places[-1]), ylim=(0, None), xlabel=name, ylabel="ms per step")
    style.name_curves(axes)
    return figure


if __name__ == "__main__":
    main()
