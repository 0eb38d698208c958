"""`horst predict`: what a model says of a video, a folder of frames, a camera or an address, while it unfolds."""

from __future__ import annotations

import contextlib
import json
import statistics
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from horst.cli.render import interruptible, pages, rate_of
from horst.config import check_positive
from horst.console import Console, visible
from horst.errors import ConfigError, MissingVideoError
from horst.models import open_model
from horst.streaming import LatestFrames, Prediction, reset_policy
from horst.video.decode import VideoFile
from horst.video.encode import write_video
from horst.video.frame import Frame, Size
from horst.video.images import ImageSequence
from horst.video.live import LiveSource, is_live

BAR = 30
"""Characters of a bar of probability 1."""


def run(
    model: str,
    source: str,
    *,
    restart: str,
    seconds: float,
    states: int,
    threshold: float,
    top: int,
    fps: float | None,
    patience: float,
    device: str,
    as_json: bool,
    render: str | None = None,
) -> None:
    check_positive(top=top)
    predictor = open_model(model, device=device)
    live, drawn = is_live(source), render is not None
    reset = reset_policy(restart, predictor.head.classes, seconds=seconds, states=states, live=live)
    stream = predictor.stream(reset=reset, threshold=threshold, attention=drawn, live=live)
    taken: list[float] = []
    with contextlib.ExitStack() as stack:
        frames, end = open_source(source, None if live and drawn else predictor.size, fps, patience, stack)
        show = _lines(top) if as_json else stack.enter_context(_Screen(source, top))

        def told(prediction: Prediction) -> None:
            taken.append(prediction.latency)
            show(prediction)

        if render is None:
            for prediction in stream.watch(frames, end):
                told(prediction)
        else:
            # A file is read twice, small and as it is: what the model says must not depend on being drawn.
            seen = None if live else open_source(source, None, fps, patience, stack)[0]
            stop = stack.enter_context(interruptible(frames))
            path, rate = Path(render), rate_of(source, fps)
            path.parent.mkdir(parents=True, exist_ok=True)
            write_video(path, pages(stream, frames, end, seen, rate, told, stop), rate, threads=2)
    if not as_json:
        summary = f"{len(taken)} predictions at {predictor.fps:g} a second"
        if taken:
            p50, p95 = statistics.median(taken), sorted(taken)[int(0.95 * (len(taken) - 1))]
            summary += f"; {1e3 * p50:.1f} ms each, {1e3 * p95:.1f} ms for the slowest twentieth"
        Console().print(summary, highlight=False)
        if render is not None:
            Console().print(f"{render} shows them", highlight=False)


def open_source(
    source: str, size: Size | None, fps: float | None, patience: float, stack: contextlib.ExitStack
) -> tuple[Iterator[Frame], float | None]:
    """Frames in a size or their own, and where it is known when the last one is over."""
    if is_live(source):
        live = LiveSource(source=source, size=size, patience=patience)
        return stack.enter_context(LatestFrames(live.frames())), None
    path = Path(source)
    if not path.exists():
        raise MissingVideoError(source, "there is no such file, folder, camera (camera:0) or address (rtsp://...)")
    if path.is_dir() or path.suffix == ".tar":
        if fps is None:
            raise ConfigError(f"{source} is a folder of frames: pass --fps, how many there are a second")
        pictures = stack.enter_context(ImageSequence(path, fps=fps, size=size))
        return pictures.frames(), pictures.duration
    video = stack.enter_context(VideoFile(path, size=size))
    return video.frames(), video.info.duration


def _lines(top: int) -> Callable[[Prediction], None]:
    def show(prediction: Prediction) -> None:
        print(json.dumps(replace(prediction, attention=None).to_dict(top)), flush=True)

    return show


class _Screen:
    """Bars that move, on a terminal; where there is none, a line for each change of mind."""

    def __init__(self, source: str, top: int) -> None:
        self.source, self.top = source, top
        self.console = Console()
        self._live = Live(console=self.console, refresh_per_second=20, transient=False) if sys.stdout.isatty() else None
        self._said: str | None = ""

    def __enter__(self) -> _Screen:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def __call__(self, prediction: Prediction) -> None:
        if self._live is not None:
            self._live.update(self._view(prediction))
            return
        answer = prediction.answer()
        if answer != self._said:
            ((_, chance),) = prediction.top(1)
            self.console.print(f"{prediction.time:7.2f} s  {answer or '...'}  {100 * chance:.0f}%", highlight=False)
            self._said = answer

    def _view(self, prediction: Prediction) -> Group:
        title = f"{self.source}  {prediction.time:.2f} s, frame {prediction.age}, {1e3 * prediction.latency:.0f} ms"
        table = Table(box=None, show_header=False, pad_edge=False)
        for i, (name, chance) in enumerate(prediction.top(self.top)):
            style = "bold green" if i == 0 and prediction.answer() is not None else ""
            table.add_row(
                Text(visible(name), style), Text("█" * round(BAR * chance), style or "blue"), f"{100 * chance:4.1f}%"
            )
        return Group(Text(visible(title), "dim"), table)
