"""Takes the screenshots of the server's page in docs/images, in headless Chromium.

python -m tools.draw_server_page [--folder docs/images]
"""

from __future__ import annotations

import argparse
import shutil
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import sync_playwright

import horst
from horst.finetune import Recordings
from horst.serving import Limits, create_app
from horst.serving.server import create_server
from horst.synth import somethings

SCREENS = {"serve": (1280, 1100, 1), "serve-phone": (390, 844, 2)}
"""Width, height and scale by name."""
TAUGHT = {"push right": "Pushing [something] from left to right", "lift": "Moving [something] up"}
"""Labels of recorded clips, and the synthetic action that they show: screenshots show nobody."""
CLIPS = 4  # of each label


def record(folder: Path) -> None:
    """Recorded clips, as of a user who has begun to teach."""
    recordings = Recordings(folder / "recordings")
    for seed, (label, template) in enumerate(TAUGHT.items(), 1000):
        for spec in somethings.plan(CLIPS, seed, templates=(template,)):
            frames = somethings.render(spec, size=192)
            recordings.add(label, ((i / somethings.FPS, image) for i, image in enumerate(frames)))


@contextmanager
def served() -> Iterator[str]:
    limits = Limits(load=1000.0)
    with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as listener:
        record(Path(folder))
        port = listener.getsockname()[1]
        app = create_app(horst.open_model("somethings"), folder, name="somethings", limits=limits)
        server = create_server(app, host="127.0.0.1", port=port, limits=limits)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{port}"
        server.should_exit = True
        thread.join()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("docs/images"))
    args = parser.parse_args()
    with served() as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for name, (width, height, scale) in SCREENS.items():
            page = browser.new_page(viewport={"width": width, "height": height}, device_scale_factor=scale)
            page.goto(url)
            page.wait_for_function("() => document.querySelectorAll('#samples img[src]').length === 6")
            page.click("#play-sample")
            page.wait_for_selector("#answer.right")
            page.wait_for_timeout(6000)  # a second run of the sample
            page.wait_for_function("() => document.querySelector('video').currentTime > 2.2")
            page.screenshot(path=args.folder / f"{name}.png")
        browser.close()


if __name__ == "__main__":
    main()
