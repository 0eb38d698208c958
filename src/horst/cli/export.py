"""`horst export MODEL`: a file that runs without this package, checked before it is kept."""

from __future__ import annotations

from pathlib import Path

from horst.console import Console
from horst.export import SUFFIX, Format, What, export_model
from horst.models import MODELS, Predictor, create_model
from horst.models.hub import model_title, open_model

NAMES = {"onnx": "onnxruntime", "torch": "torch.export", "aoti": "AOTInductor"}


def run(
    model: str,
    *,
    what: What,
    format: Format,
    output: str | None,
    frames: int | None,
    unroll: int | None,
    opset: int | None,
    force: bool,
) -> None:
    console = Console(highlight=False)
    made = find(model)
    if model in MODELS and not Path(model).exists():
        console.print(f"{model} has fresh weights: nothing was learnt by them")
    path = Path(output) if output is not None else default_output(model, what, format)
    report = export_model(made, path, what=what, format=format, frames=frames, unroll=unroll, opset=opset, force=force)
    console.print(f"{report.path}: {report.size / 1e6:.1f} MB")
    console.print(f"parity over {report.frames} frames of 2 streams: largest difference of logits {report.error:.1e}")
    threads = f"{report.threads} CPU thread{'s' if report.threads > 1 else ''}"
    console.print(
        f"a frame of one stream, {threads}: {NAMES[format]} {report.graph_ms:.2f} ms, "
        f"this package {report.eager_ms:.2f} ms, ratio {report.eager_ms / report.graph_ms:.2f}"
    )


def find(model: str) -> Predictor:
    """A model that `open_model` takes, or one by name with fresh weights."""
    if model in MODELS and not Path(model).exists():
        return create_model(model).eval()
    return open_model(model)


def default_output(model: str, what: What, format: Format) -> Path:
    """In the present folder, by the model's name; a file that is compiled says so."""
    compiled = ".aoti" if format == "aoti" else ""
    return Path(f"{model_title(model)}-{what}{compiled}{SUFFIX[format]}")
