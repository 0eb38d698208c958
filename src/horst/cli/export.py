"""`horst export`: a file that runs without this package, checked before it is kept."""

from pathlib import Path
from typing import Literal

from horst.cli.options import Flag, Source
from horst.console import Console, working
from horst.errors import ExportError

RUNTIMES = {"onnx": "onnxruntime", "torch": "torch.export", "aoti": "AOTInductor"}


def export(
    model: Source,
    /,
    *,
    what: Literal["step", "clip"] = "step",
    format: Literal["onnx", "torch", "aoti"] = "onnx",
    output: Path | None = None,
    frames: int | None = None,
    unroll: int | None = None,
    opset: int | None = None,
    force: Flag = False,
) -> None:
    """Write a model as a file that runs without this package, and check that its outputs are the same.

    Args:
        model: A run, a saved model, hf://user/name, a packaged model such as kitchen, or a name such as horst_tiny.
        what: One frame with the state passed in and out, or a whole clip from a new state (ONNX alone).
        format: ONNX; torch.export's .pt2; or a .pt2 that AOTInductor compiles for this machine (needs a C++ compiler).
        output: The file; <model>-<what>.onnx or .pt2 by default.
        frames: Clip: a fixed number of frames; any number by default.
        unroll: Unrolling head: how many LSTM steps away the action is, at every frame.
        opset: ONNX opset, 18 to 23; 20 by default.
        force: Replace an existing file.
    """
    console = Console(highlight=False)
    path = output or default_output(model, what, format)
    if path.exists() and not force:
        raise ExportError(f"{path} exists: pass --force to replace it, or choose another name")
    with working("loading the model") as say:
        from horst.export import export_model
        from horst.models import MODELS, create_model, open_model

        if model in MODELS and not Path(model).exists():
            made = create_model(str(model)).eval()
            console.print(f"{model} has random weights: it was not trained")
        else:
            made = open_model(model)
        report = export_model(
            made, path, what=what, format=format, frames=frames, unroll=unroll, opset=opset, force=force, report=say
        )
    console.print(f"{report.path}: {report.size / 1e6:.1f} MB")
    console.print(f"parity over {report.frames} frames of 2 streams: largest difference of logits {report.error:.1e}")
    if made.head.video is not None and made.head.video.sequence is not None:
        console.print(f"the graph does not contain the next {made.head.video.sequence.steps} actions of clip.sequence")
    threads = f"{report.threads} CPU thread{'s' if report.threads > 1 else ''}"
    console.print(
        f"a frame of one stream, {threads}: {RUNTIMES[format]} {report.graph_ms:.2f} ms, "
        f"this package {report.eager_ms:.2f} ms, ratio {report.eager_ms / report.graph_ms:.2f}"
    )


def default_output(model: Source, what: str, format: Literal["onnx", "torch", "aoti"]) -> Path:
    """In the present folder, by the model's name."""
    from horst.places import model_title

    compiled = ".aoti" if format == "aoti" else ""
    return Path(f"{model_title(model)}-{what}{compiled}{'.onnx' if format == 'onnx' else '.pt2'}")
