"""Teach four gestures of real people on the page, from files and from the camera, and recognise those of others."""

from __future__ import annotations

import csv
import random
from itertools import chain
from pathlib import Path

import browsers
import numpy as np
import pytest
import servers
from playwright.sync_api import Page, expect

from horst.video.decode import VideoFile
from horst.video.frame import Image

pytestmark = [pytest.mark.browser, pytest.mark.slow]
LABELS = ("left_swipe", "right_swipe", "stop", "thumbs_up")
RECORDED, UPLOADS = "thumbs_up", 3  # the camera shows the other clips of this label
TAUGHT_RUN = "30"  # the largest recording run; clips of all others are held out
FPS, STILL = 15, 20  # frame rate of the camera, and frames without motion before each gesture
STILL_NOW = """async () => {
  const video = document.querySelector("video");
  const pen = Object.assign(document.createElement("canvas"), { width: 32, height: 24 }).getContext("2d");
  const look = () => (pen.drawImage(video, 0, 0, 32, 24), pen.getImageData(0, 0, 32, 24).data);
  for (let before = look(), calm = 0; calm < 3; ) {
    await new Promise((resolve) => setTimeout(resolve, 80));
    const now = look();
    calm = now.every((value, i) => Math.abs(value - before[i]) < 3) ? calm + 1 : 0;
    before = now;
  }
}"""


def choose(folder: Path) -> tuple[dict[str, list[Path]], list[tuple[str, Path]]]:
    """Five clips of each label to teach, and two of each from other runs, with a fixed seed."""
    with (folder / "manifest.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    rng = random.Random(0)
    taught, held_out = {}, []
    for label in LABELS:
        of_label = [row for row in rows if row["label"] == label]
        one_camera = [row for row in of_label if row["fps"] == str(FPS) and row["w"] == "150"]
        known = [folder / row["path"] for row in one_camera if row["run"] == TAUGHT_RUN]
        others = [folder / row["path"] for row in of_label if row["run"] != TAUGHT_RUN]
        taught[label] = rng.sample(known, 5)
        held_out += [(label, path) for path in rng.sample(others, 2)]
    return taught, held_out


def camera(path: Path, clips: list[Path]) -> Path:
    """A camera before which people stand still and then make a gesture, one after the other."""

    def frames(clip: Path) -> list[Image]:
        with VideoFile(clip) as video:
            found = [frame.image for frame in video.frames()]
        return [found[0]] * STILL + found

    return browsers.write_camera(path, np.stack(list(chain.from_iterable(map(frames, clips)))), FPS)


def record(page: Page, label: str, clips: int) -> None:
    """Hold the button from before each gesture to its end."""
    row = page.locator(f"#labels > li[data-label='{label}']")
    before = row.locator(".clips li").count()
    # not `expect`, which looks once per second: the next gesture begins soon
    long = "() => Number(document.querySelector('#recording').textContent.match(/[\\d.]+/)) >= 2.6"
    stored = "([label, count]) => document.querySelectorAll(`[data-label=${label}] .clips li`).length === count"
    for count in range(before + 1, before + clips + 1):
        row.locator(".record").hover()
        page.evaluate(STILL_NOW)
        page.mouse.down()
        page.wait_for_function(long, polling=100)
        page.mouse.up()
        page.wait_for_function(stored, arg=[label, count], polling=100)


def open_page(page: Page, server: servers.Running) -> None:
    page.goto(server.url)
    expect(page.locator("#connection")).to_have_text("ready")


def start_camera(page: Page) -> None:
    page.click("#use-camera")
    page.wait_for_function("() => document.querySelector('video').videoWidth > 0", polling=100)


def add(page: Page, label: str) -> None:
    page.fill("#label-name", label)
    page.keyboard.press("Enter")
    expect(page.locator(f"#labels > li[data-label='{label}']")).to_be_visible()


def upload(page: Page, label: str, clips: list[Path]) -> None:
    row = page.locator(f"#labels > li[data-label='{label}']")
    row.locator("input[type=file]").set_input_files(clips)
    expect(row.locator(".clips li")).to_have_count(len(clips))


def last_answer(page: Page, clip: Path) -> str:
    """The answer that is shown at the end of a file."""
    page.set_input_files("#file", clip)
    expect(page.locator("#file-name")).to_have_text(clip.name)
    page.wait_for_function("() => document.querySelector('video').ended", polling=100)
    page.wait_for_timeout(900)  # for the last answers; the video restarts after 1.5 s
    return page.locator("#answer").inner_text()


@pytest.mark.integration
@pytest.mark.usefixtures("eager_finetuning")
def test_teach_gestures(samples: Path, tmp_path: Path) -> None:
    taught, held_out = choose(samples / "gestures")
    with (
        servers.running(tmp_path / "served", name="somethings", base="motion_pool") as server,
        browsers.browser(camera(tmp_path / "camera.y4m", taught[RECORDED][UPLOADS:])) as browser,
        browsers.page(browser) as page,
    ):
        open_page(page, server)
        for label, clips in taught.items():
            add(page, label)
            upload(page, label, clips[:UPLOADS] if label == RECORDED else clips)
        start_camera(page)
        record(page, RECORDED, len(taught[RECORDED]) - UPLOADS)
        page.click("#pause")  # predictions for the camera would slow the training down
        answers = train_and_watch(page, held_out)
    right = [label == answer for (label, _), answer in zip(held_out, answers, strict=True)]
    assert sum(right) >= 6, list(zip([label for label, _ in held_out], answers, strict=True))


def train_and_watch(page: Page, clips: list[tuple[str, Path]]) -> list[str]:
    """The answers at the ends of held-out clips."""
    page.click("#train")
    expect(page.locator("#notice-text")).to_contain_text("mine is ready", timeout=300_000)
    expect(page.locator("#result-rows tr")).to_have_count(4)
    expect(page.locator("#advice li")).not_to_have_count(0)  # "nothing" has no clips
    return [last_answer(page, clip) for _, clip in clips]
