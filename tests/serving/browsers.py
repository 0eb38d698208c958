"""A browser with a fake camera, and servers for it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import torch
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright
from servers import running

from horst.models import Predictor
from horst.serving import Limits
from horst.synth import somethings
from horst.video.frame import Image

TIMEOUT = 60_000  # ms: a page beside other work is slow
expect.set_options(timeout=TIMEOUT)


@contextmanager
def browser(camera: Path) -> Iterator[Browser]:
    """Headless Chromium; its camera repeats the file `camera`, and pages may use it."""
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        pytest.skip("needs a browser: apt-get install chromium")
    fakes = ["--use-fake-ui-for-media-stream", "--use-fake-device-for-media-stream"]
    args = ["--no-sandbox", *fakes, f"--use-file-for-fake-video-capture={camera}"]
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=found, args=args)
        yield running
        running.close()


@contextmanager
def page(browser: Browser, *allowed: str, **options: Any) -> Iterator[Page]:
    """A new page. It must not log errors, except those that contain one of the `allowed` words.

    A warning that tests read a canvas often is no error of the page.
    """
    # A page that leaves while it connects, which a slow machine makes likely, is no error of the page.
    allowed = (*allowed, "willReadFrequently", "closed before the connection is established")
    context = browser.new_context(**options)
    opened = context.new_page()
    opened.set_default_timeout(TIMEOUT)
    errors: list[str] = []

    def note(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            errors.append(f"{message.text} ({message.location['url']})")

    opened.on("console", note)
    opened.on("pageerror", lambda error: errors.append(f"uncaught: {error}"))
    yield opened
    context.close()
    unexpected = [error for error in errors if not any(word in error for word in allowed)]
    assert not unexpected, unexpected


@contextmanager
def served(
    model: Predictor, folder: Path, port: int = 0, limits: Limits | None = None, **options: Any
) -> Iterator[str]:
    """The address of a server in a thread."""
    with running(folder, limits, model=model, name="somethings", port=port, **options) as server:
        yield server.url


def known_clip(model: Predictor, seed: int = 1000) -> tuple[str, Image]:
    """Class and frames of a synthetic clip that the model predicts correctly."""
    for spec in somethings.plan(24, seed):
        frames = somethings.render(spec, size=112)
        with torch.inference_mode():
            out, _ = model(torch.from_numpy(frames[::2]).permute(0, 3, 1, 2)[None])
        chances = out.logits.action[0].softmax(-1).numpy()
        name = spec.template.replace("[something]", "something")
        if np.argmax(chances[-1]) == model.labels["action"].index(name) and chances[-4:].max(-1).min() > 0.9:
            return name, frames
    raise AssertionError("the model predicts none of the clips")


def write_camera(path: Path, frames: Image, fps: int = 12) -> Path:
    """YUV4MPEG2, the format of Chromium's fake camera."""
    height, width = frames.shape[1:3]
    with path.open("wb") as file:
        file.write(f"YUV4MPEG2 W{width} H{height} F{fps}:1 Ip A1:1 C420jpeg\n".encode())
        for image in frames:
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(image), format="rgb24")
            file.write(b"FRAME\n" + frame.reformat(format="yuv420p").to_ndarray().tobytes())
    return path
