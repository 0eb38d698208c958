"""`horst report`: one page about a run, from what it is to where it looks."""

from pathlib import Path

from horst.cli.options import Device, Evaluated
from horst.console import Console
from horst.errors import InputError


def report(
    run: Evaluated,
    /,
    *,
    data: Path | None = None,
    split: str = "val",
    clips: int = 6,
    output: Path | None = None,
    device: Device = "auto",
) -> None:
    """Write a page about a run: curves, mistakes, calibration, and clips with predictions and attention.

    Args:
        data: A data set's YAML file; the run's own data by default.
        split: Split to evaluate on.
        clips: How many to show: some right, some wrong, some whose prediction changes.
        output: The HTML file; RUN/evaluation/<split>.html by default, or <model>-report.html.
    """
    from horst.cli.evaluate import draw_curve
    from horst.io import write_text
    from horst.training.evaluated import open_evaluated
    from horst.viz.report import report_page

    if clips < 0:
        raise InputError(f"clips is {clips}; it starts at 0")
    opened = open_evaluated(run, data=data, device=device)
    predictions, evaluation = opened.evaluate(split, reuse=True)
    draw_curve(opened, evaluation)
    if output is None and opened.run is not None:
        output = opened.run.evaluation(opened.name(split), "html")
    output = output or Path(f"{opened.title}-report.html")
    write_text(output, report_page(opened, predictions, evaluation, clips=clips))
    Console().print(f"{output}: {output.stat().st_size / 1e6:.1f} MB", highlight=False)
