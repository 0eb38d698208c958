"""The page in a real browser, against a real server: sources, keyboard, phones, errors and finetuning."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import browsers
import pytest
import servers
from playwright.sync_api import Browser, Page, expect

import horst
from horst.models import Predictor
from horst.serving import Limits

expect.set_options(timeout=25_000)
pytestmark = pytest.mark.browser
LOST = ("ERR_CONNECTION_REFUSED", "ERR_EMPTY_RESPONSE", "ERR_CONNECTION_RESET", "WebSocket connection")


@pytest.fixture(scope="module")
def model() -> Predictor:
    return horst.open_model("somethings").eval()


@pytest.fixture(scope="module")
def clip(model: Predictor) -> tuple[str, object]:
    return browsers.known_clip(model)


@pytest.fixture(scope="module")
def browser(clip: tuple[str, object], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    camera = browsers.write_camera(tmp_path_factory.mktemp("camera") / "camera.y4m", clip[1])
    with browsers.browser(camera) as running:
        yield running


@pytest.fixture(scope="module")
def url(model: Predictor, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with browsers.served(model, tmp_path_factory.mktemp("served")) as address:
        yield address


def visit(page: Page, url: str) -> None:
    page.goto(url)
    expect(page.locator("#sample option")).to_have_count(6)
    expect(page.locator("#connection")).to_have_text("ready")


def test_sample_is_predicted_correctly(browser: Browser, url: str) -> None:
    with browsers.page(browser) as page:
        visit(page, url)
        page.click("#play-sample")
        expect(page.locator("#answer")).to_have_class(re.compile("right"))  # the label of the sample
        expect(page.locator("#answer")).to_have_text("Lifting something up and putting it back")
        expect(page.locator("#bars li[data-lead]")).to_contain_text("Lifting something up and putting it back")
        expect(page.locator("#connection")).to_have_text("connected")
        expect(page.locator("#latency")).to_have_text(re.compile(r"\d+ ms"))
        shares = [float(text.rstrip("%")) for text in page.locator("#strip b").all_inner_texts() if text]
        assert 1 <= len(shares) <= 8  # as many as there are frames
        assert 95 <= sum(shares) <= 105
        drawn = page.evaluate(
            "() => document.querySelector('#heat').getContext('2d').getImageData(0, 0, 224, 224).data.some((v) => v)"
        )
        assert drawn
        page.uncheck("#show-heat")
        expect(page.locator("#heat")).to_be_hidden()
        page.fill("#threshold", "95")
        page.click("#next-sample")
        expect(page.locator("#answer")).to_have_text("not sure")  # one frame is not enough


def test_camera_is_predicted_correctly(browser: Browser, url: str, clip: tuple[str, object]) -> None:
    with browsers.page(browser) as page:
        visit(page, url)
        page.click("#use-camera")
        expect(page.locator("#camera option")).not_to_have_count(0)
        expect(page.locator("#answer")).to_have_text(clip[0])
        page.click("#reset")
        expect(page.locator("#answer")).not_to_have_class(re.compile("right"))  # the label of a camera is unknown
        page.click("#pause")
        expect(page.locator("#pause")).to_have_text("Continue")


def test_file_is_played(browser: Browser, url: str, clip: tuple[str, object], tmp_path: Path) -> None:
    from horst.video.encode import write_video

    path = tmp_path / "clip.mp4"
    write_video(path, clip[1], 12)
    (tmp_path / "broken.mp4").write_bytes(b"no video")
    with browsers.page(browser) as page:
        visit(page, url)
        page.set_input_files("#file", tmp_path / "broken.mp4")
        expect(page.locator("#notice-text")).to_contain_text("cannot play broken.mp4")
        page.set_input_files("#file", path)
        expect(page.locator("#file-name")).to_have_text("clip.mp4")
        expect(page.locator("#answer")).to_have_text(clip[0])
        expect(page.locator("#notice")).to_be_hidden()


def test_keyboard(browser: Browser, url: str) -> None:
    with browsers.page(browser, reduced_motion="reduce") as page:
        visit(page, url)
        reached = []
        for _ in range(40):
            page.keyboard.press("Tab")
            name, outline = page.evaluate(
                "() => [document.activeElement.id, getComputedStyle(document.activeElement).outlineStyle]"
            )
            assert outline != "none" or not name, f"#{name} has no visible focus"
            reached.append(name)
        controls = (
            "model help play-sample use-sample use-camera use-file sample next-sample show-heat reset-policy threshold"
        )
        teaching = "label-name model-name minutes train"
        assert set(f"{controls} {teaching}".split()) <= set(reached)
        page.focus("#play-sample")
        page.keyboard.press("Enter")
        expect(page.locator("#bars li")).to_have_count(5)
        page.keyboard.press("?")
        expect(page.locator("#keys")).to_be_visible()
        page.keyboard.press("Escape")
        expect(page.locator("#keys")).to_be_hidden()
        page.keyboard.press("a")
        expect(page.locator("#heat")).to_be_hidden()
        page.keyboard.press("n")
        expect(page.locator("#sample")).to_have_value("sample-2")
        page.keyboard.press("p")
        expect(page.locator("#pause")).to_have_text("Continue")
        page.focus("#label-name")
        page.keyboard.type("pawns")
        expect(page.locator("#pause")).to_have_text("Continue")  # no shortcuts in text fields
        page.keyboard.press("Enter")
        expect(page.locator("#labels li[aria-current]")).to_contain_text("pawns")


@pytest.mark.parametrize("width", [320, 360])
def test_phone_does_not_scroll_sideways(browser: Browser, url: str, width: int) -> None:
    with browsers.page(browser, viewport={"width": width, "height": 740}, color_scheme="dark") as page:
        visit(page, url)
        page.fill("#label-name", "an action with a name that has quite a lot of words in it")
        page.keyboard.press("Enter")
        page.click("#play-sample")
        expect(page.locator("#bars li")).to_have_count(5)
        wide = (
            "() => [...document.querySelectorAll('body *:not(option, .skip, .unseen)')]"
            ".filter((e) => e.getBoundingClientRect().right > innerWidth + 1).map((e) => e.outerHTML)"
        )
        assert page.evaluate(wide) == []
        assert page.evaluate("() => document.documentElement.scrollWidth") == width


def test_reconnects(browser: Browser, tmp_path: Path) -> None:
    model = servers.tiny()
    with browsers.page(browser, *LOST) as page:
        with browsers.served(model, tmp_path) as url:
            visit(page, url)
            page.click("#use-camera")
            expect(page.locator("#bars li")).not_to_have_count(0)
        expect(page.locator("#connection")).to_contain_text("retrying in")
        with browsers.served(model, tmp_path, port=int(url.rsplit(":", 1)[1])):
            expect(page.locator("#connection")).to_have_text("connected")
            expect(page.locator("#bars li")).not_to_have_count(0)
            page.click("#pause")


def test_error_messages(browser: Browser, tmp_path: Path) -> None:
    refuse = "navigator.mediaDevices.getUserMedia = () => Promise.reject(new DOMException('no', 'NotAllowedError'))"
    limits = Limits(streams=1, load=1000.0)
    tiny = servers.tiny()
    with (
        browsers.served(tiny, tmp_path, limits=limits, token="a-long-token") as url,
        browsers.page(browser, "401") as page,
    ):
        page.add_init_script(refuse)
        page.goto(url)
        for token in ("wrong-token", "a-long-token"):
            expect(page.locator("#token-dialog")).to_be_visible()
            expect(page.locator("#token-wrong")).to_be_visible(visible=token == "a-long-token")
            page.fill("#token", token)
            page.keyboard.press("Enter")
        expect(page.locator("#connection")).to_have_text("ready")
        page.click("#use-camera")
        expect(page.locator("#notice-text")).to_contain_text("Camera access was denied")
        page.click("#play-sample")
        expect(page.locator("#bars li")).not_to_have_count(0)
        with browsers.page(browser) as other:
            other.goto(f"{url}#token=a-long-token")
            expect(other.locator("#connection")).to_have_text("ready")
            assert "token" not in other.url
            other.click("#play-sample")
            expect(other.locator("#connection")).to_contain_text("busy")
            expect(other.locator("#notice-text")).to_have_text("Server full. Retrying...")
            page.close()
            expect(other.locator("#connection")).to_have_text("connected")
            expect(other.locator("#notice")).to_be_hidden()


@pytest.mark.slow
def test_teach_from_the_camera(browser: Browser, url: str) -> None:
    with browsers.page(browser) as page:
        visit(page, url)
        for label in ("wave", "thumb up"):
            page.fill("#label-name", label)
            page.keyboard.press("Enter")
        page.click("#use-camera")
        expect(page.locator("#bars li")).not_to_have_count(0)
        for label in ("wave", "thumb up"):
            row = page.locator(f"#labels > li[data-label='{label}']")
            for count in (1, 2):
                row.locator(".record").hover()
                page.mouse.down()
                expect(page.locator("#recording")).to_have_text(re.compile(r"recording ([1-9]|0\.[6-9])"))
                page.mouse.up()
                expect(row.locator(".clips li")).to_have_count(count)
        page.keyboard.press("r")  # the selected one is the last
        expect(page.locator("#countdown")).to_be_visible()
        page.keyboard.press("Escape")
        expect(page.locator("#countdown")).to_be_hidden()
        row.locator(".clips button").first.click()
        expect(row.locator(".clips li")).to_have_count(1)
        page.click("#pause")  # leaves the processor to the training
        page.fill("#minutes", "0.05")
        page.click("#train")
        expect(page.locator("#progress")).to_be_visible()
        expect(page.locator("#notice-text")).to_contain_text("mine is ready", timeout=150_000)
        expect(page.locator("#model")).to_have_value("mine")
        page.click("#pause")
        expect(page.locator("#answer")).to_have_text(re.compile("wave|thumb up|not sure"))
        expect(page.locator("#bars li")).to_have_count(2)
