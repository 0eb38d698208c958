"""`horst predict`: the predictions of a model for a video, a folder of images, a camera or an address."""

from __future__ import annotations

import contextlib
import json
import signal
import statistics
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter
from rich.cells import cell_len
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from horst.cli.options import Device, Json, Model, Source
from horst.console import Console, visible, working
from horst.errors import ConfigError, MissingVideoError

if TYPE_CHECKING:
    from horst.streaming import Prediction
    from horst.video.frame import Frame, Size

BAR = 30  # characters of a bar of probability 1
SYNTHETIC = "This model knows synthetic clips only. Teach it your own actions: horst teach CLIPS MODEL"
NO_SOURCE = "there is no such file, folder, camera (camera:0) or address (rtsp://...)"
LIVE_FPS, MOST_FPS = 12.0, 30.0  # frame rates of a rendered video: from a camera, and at most


def predict(
    model: Model,
    source: Source,
    /,
    *,
    reset: Literal["auto", "never", "every", "motion"] = "auto",
    seconds: float = 3.0,
    states: int = 3,
    threshold: float = 0.0,
    top: int = 5,
    fps: float | None = None,
    patience: float = 0.0,
    device: Device = "auto",
    as_json: Annotated[Json, Parameter(help="Print a line of JSON for each prediction.")] = False,
    render: Path | None = None,
) -> None:
    """Predict what happens in a video while it unfolds: a file, a folder of images, a camera or an address.

    Args:
        source: clip.mp4, a folder of images, camera:0, rtsp://...
        reset: Reset the state never, every few seconds, or when motion begins; auto: every, for live recognition.
        seconds: With every: lifetime of a state.
        states: With every: number of staggered states; the most confident one counts.
        threshold: Probability below which there is no answer.
        top: Number of classes to show.
        fps: Frame rate of a folder of images.
        patience: Camera or address: seconds without a frame before giving up.
        render: Write a video, such as out.mp4, with predictions and attention; from a camera until Ctrl-C.
    """
    from horst.config import check_positive
    from horst.places import find_model, pretrained_models
    from horst.video.live import is_live

    check_positive(top=top)
    source = str(source)
    find_model(model)
    if not is_live(source) and not Path(source).exists():
        raise MissingVideoError(source, NO_SOURCE)
    with working("loading the model"):
        from horst.models import open_model
        from horst.streaming import reset_policy
        from horst.video.encode import write_video
        from horst.viz.render import render_stream

        predictor = open_model(model, device=device)
    if str(model) in pretrained_models():
        Console(stderr=True).print(SYNTHETIC, highlight=False)
    live, drawn = is_live(source), render is not None
    policy = reset_policy(reset, predictor.head.classes, seconds=seconds, states=states, live=live)
    stream = predictor.stream(reset=policy, threshold=threshold, attention=drawn, live=live)
    taken: list[float] = []
    with contextlib.ExitStack() as stack:
        frames, end, rate = _open(source, None if live and drawn else predictor.size, fps, patience, stack)
        show = None if as_json else _Screen(source, top, stack)

        def report(prediction: Prediction) -> None:
            taken.append(prediction.latency)
            if show is not None:
                show(prediction)
            else:
                print(json.dumps(replace(prediction, attention=None).to_dict(top)), flush=True)

        if render is None:
            for prediction in stream.watch(frames, end):
                report(prediction)
        else:
            # A file is read twice, small and as it is: predictions must not depend on being drawn.
            large = None if live else _open(source, None, fps, patience, stack)[0]
            stop = stack.enter_context(_interruptible(frames))
            rate = min(rate, MOST_FPS)
            images = render_stream(stream, frames, end, fps=rate, large=large, report=report, stop=stop)
            render.parent.mkdir(parents=True, exist_ok=True)
            write_video(render, images, rate, threads=2)
    if not as_json:
        summary = f"{len(taken)} predictions at {predictor.fps:g} a second"
        if taken:
            p50, p95 = statistics.median(taken), sorted(taken)[int(0.95 * (len(taken) - 1))]
            summary += f"; latency {1e3 * p50:.1f} ms (median), {1e3 * p95:.1f} ms (95th percentile)"
        Console().print(summary, highlight=False)
        if render is not None:
            Console().print(f"{render} shows them", highlight=False)


def _open(
    source: str, size: Size | None, fps: float | None, patience: float, stack: contextlib.ExitStack
) -> tuple[Iterator[Frame], float | None, float]:
    """Frames in a size or their own, the end of the last one if it is known, and the frame rate."""
    from horst.streaming import LatestFrames
    from horst.video.decode import VideoFile
    from horst.video.frame import is_image_sequence
    from horst.video.images import ImageSequence
    from horst.video.live import LiveSource, is_live

    if is_live(source):
        live = LiveSource(source=source, size=size, patience=patience)
        return stack.enter_context(LatestFrames(live.frames())), None, LIVE_FPS
    path = Path(source)
    if not path.exists():
        raise MissingVideoError(source, NO_SOURCE)
    if is_image_sequence(path):
        if fps is None:
            raise ConfigError(f"{source} is a folder of images: pass --fps, their frame rate")
        pictures = stack.enter_context(ImageSequence(path, fps=fps, size=size))
        return pictures.frames(), pictures.duration, fps
    video = stack.enter_context(VideoFile(path, size=size))
    return video.frames(), video.info.duration, fps or video.info.fps or LIVE_FPS


@contextlib.contextmanager
def _interruptible(frames: object) -> Iterator[Callable[[], bool]]:
    """Ctrl-C ends the video and keeps it; a second one interrupts as usual."""
    stopped, usual = threading.Event(), signal.getsignal(signal.SIGINT)
    in_main = threading.current_thread() is threading.main_thread()

    def end(*_: object) -> None:
        stopped.set()
        if hasattr(frames, "stop"):
            frames.stop()
        signal.signal(signal.SIGINT, usual)

    if in_main:
        signal.signal(signal.SIGINT, end)
    try:
        yield stopped.is_set
    finally:
        if in_main:
            signal.signal(signal.SIGINT, usual)


class _Screen:
    """Moving bars on a terminal; otherwise a line whenever the answer changes."""

    def __init__(self, source: str, top: int, stack: contextlib.ExitStack) -> None:
        self.source, self.top, self.console = source, top, Console()
        live = Live(console=self.console, refresh_per_second=20) if sys.stdout.isatty() else None
        self._live = stack.enter_context(live) if live is not None else None
        self._answer: str | None = ""

    def __call__(self, prediction: Prediction) -> None:
        if self._live is not None:
            self._live.update(self._view(prediction))
            return
        answer = prediction.answer()
        if answer != self._answer:
            ((_, chance),) = prediction.top(1)
            line = visible(f"{prediction.time:7.2f} s  {answer or '...'}  {100 * chance:.0f}%", lines=False)
            then = _then(prediction, self.console.width - cell_len(line) - 2)
            self.console.print(f"{line}, {then}" if then else line, highlight=False)
            self._answer = answer

    def _view(self, prediction: Prediction) -> Group:
        title = f"{self.source}  {prediction.time:.2f} s, frame {prediction.age}, {1e3 * prediction.latency:.0f} ms"
        table = Table(box=None, show_header=False, pad_edge=False)
        for i, (name, chance) in enumerate(prediction.top(self.top)):
            style = "bold green" if i == 0 and prediction.answer() is not None else ""
            bar = Text("█" * round(BAR * chance), style or "blue")
            table.add_row(Text(visible(name), style), bar, f"{100 * chance:4.1f}%")
        then = _then(prediction, self.console.width)
        return Group(Text(visible(title), "dim"), table, *([Text(then)] if then else []))


def _then(prediction: Prediction, width: int) -> str:
    """The actions after the predicted one, as many as fit: then B, C. Empty without an answer or a sequence."""
    if prediction.sequence is None or prediction.answer() is None:
        return ""
    names = [visible(name, lines=False) for name, _ in prediction.next_actions()[1:]]  # the answer is the first one
    for count in range(len(names), 0, -1):
        text = f"then {', '.join(names[:count])}{', ...' if count < len(names) else ''}"
        if cell_len(text) <= width:
            return text
    return ""
