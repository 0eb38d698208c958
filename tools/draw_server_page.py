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
from horst.serving import Limits, create_app
from horst.serving.app import create_server

SCREENS = {"serve": (1280, 1062, 1), "serve-phone": (390, 844, 2)}
"""Width, height and scale by name."""


@contextmanager
def served() -> Iterator[str]:
    limits = Limits(load=1000.0)
    with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as listener:
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
            page.wait_for_selector("#sample option", state="attached")
            page.click("#play-sample")
            page.wait_for_selector("#answer.right")
            page.wait_for_timeout(6000)  # a second run of the sample
            page.wait_for_function("() => document.querySelector('video').currentTime > 2.2")
            page.screenshot(path=args.folder / f"{name}.png")
        browser.close()


if __name__ == "__main__":
    main()
