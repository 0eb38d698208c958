"""The page in a real browser, against a real server: a sample, a camera, by keyboard, on a phone, in trouble."""

from __future__ import annotations

import re
import time
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
LOST = ("ERR_CONNECTION_REFUSED", "ERR_EMPTY_RESPONSE", "ERR_CONNECTION_RESET", "WebSocket connection")


@pytest.fixture(scope="module")
def model() -> Predictor:
    return horst.open_model("somethings").eval()


@pytest.fixture(scope="module")
def known(model: Predictor) -> tuple[str, object]:
    return browsers.known_clip(model)


@pytest.fixture(scope="module")
def browser(known: tuple[str, object], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    camera = browsers.write_camera(tmp_path_factory.mktemp("camera") / "camera.y4m", known[1])
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


def test_sample_is_named_rightly(browser: Browser, url: str) -> None:
    with browsers.page(browser) as page:
        visit(page, url)
        page.click("#play-sample")
        expect(page.locator("#answer")).to_have_class(re.compile("right"))  # as the sample's own label says
        expect(page.locator("#answer")).to_have_text("Lifting something up and putting it back")
        expect(page.locator("#bars li[data-lead]")).to_contain_text("Lifting something up and putting it back")
        expect(page.locator("#connection")).to_have_text("connected")
        expect(page.locator("#latency")).to_have_text(re.compile(r"\d+ ms"))
        shares = [float(text.rstrip("%")) for text in page.locator("#strip b").all_inner_texts() if text]
        assert 1 <= len(shares) <= 8  # as many as there were frames
        assert 95 <= sum(shares) <= 105
        drawn = page.evaluate(
            "() => document.querySelector('#heat').getContext('2d').getImageData(0, 0, 224, 224).data.some((v) => v)"
        )
        assert drawn
        page.uncheck("#show-heat")
        expect(page.locator("#heat")).to_be_hidden()
        page.fill("#threshold", "95")
        page.click("#next-sample")
        expect(page.locator("#answer")).to_have_text("not sure")  # a first frame says little


def test_camera_is_named_rightly(browser: Browser, url: str, known: tuple[str, object]) -> None:
    with browsers.page(browser) as page:
        visit(page, url)
        page.click("#use-camera")
        expect(page.locator("#camera option")).not_to_have_count(0)
        expect(page.locator("#answer")).to_have_text(known[0])
        page.click("#afresh")
        expect(page.locator("#answer")).not_to_have_class(re.compile("right"))  # nobody knows what a camera shows
        page.click("#pause")
        expect(page.locator("#pause")).to_have_text("Go on")


def test_file_is_played(browser: Browser, url: str, known: tuple[str, object], tmp_path: Path) -> None:
    from horst.video.encode import write_video

    clip = tmp_path / "clip.mp4"
    write_video(clip, known[1], 12)
    (tmp_path / "broken.mp4").write_bytes(b"no video")
    with browsers.page(browser) as page:
        visit(page, url)
        page.set_input_files("#file", tmp_path / "broken.mp4")
        expect(page.locator("#notice-text")).to_contain_text("cannot play broken.mp4")
        page.set_input_files("#file", clip)
        expect(page.locator("#file-name")).to_have_text("clip.mp4")
        expect(page.locator("#answer")).to_have_text(known[0])
        expect(page.locator("#notice")).to_be_hidden()


def test_everything_by_keyboard(browser: Browser, url: str) -> None:
    with browsers.page(browser, reduced_motion="reduce") as page:
        visit(page, url)
        reached = []
        for _ in range(40):
            page.keyboard.press("Tab")
            name, outline = page.evaluate(
                "() => [document.activeElement.id, getComputedStyle(document.activeElement).outlineStyle]"
            )
            assert outline != "none" or not name, f"#{name} does not show that it has the focus"
            reached.append(name)
        controls = (
            "model help play-sample use-sample use-camera use-file sample next-sample show-heat restarts threshold"
        )
        teaching = "label-name taught-name minutes train"
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
        expect(page.locator("#pause")).to_have_text("Go on")
        page.focus("#label-name")
        page.keyboard.type("pawns")
        expect(page.locator("#pause")).to_have_text("Go on")  # letters are letters where they are typed
        page.keyboard.press("Enter")
        expect(page.locator("#labels li[aria-current]")).to_contain_text("pawns")


@pytest.mark.parametrize("width", [320, 360])
def test_phone_has_no_sideways_scroll(browser: Browser, url: str, width: int) -> None:
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


def test_comes_back_when_the_server_does(browser: Browser, tmp_path: Path) -> None:
    model = servers.tiny()
    with browsers.page(browser, *LOST) as page:
        with browsers.served(model, tmp_path) as url:
            visit(page, url)
            page.click("#use-camera")
            expect(page.locator("#bars li")).not_to_have_count(0)
        expect(page.locator("#connection")).to_contain_text("again in")
        with browsers.served(model, tmp_path, port=int(url.rsplit(":", 1)[1])):
            expect(page.locator("#connection")).to_have_text("connected")
            expect(page.locator("#bars li")).not_to_have_count(0)
            page.click("#pause")


def test_trouble_is_told_in_sentences(browser: Browser, tmp_path: Path) -> None:
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
            page.fill("#token", token)
            page.keyboard.press("Enter")
        expect(page.locator("#connection")).to_have_text("ready")
        page.click("#use-camera")
        expect(page.locator("#notice-text")).to_contain_text("The camera was refused")
        page.click("#play-sample")
        expect(page.locator("#bars li")).not_to_have_count(0)
        with browsers.page(browser) as other:
            other.goto(f"{url}#token=a-long-token")
            expect(other.locator("#connection")).to_have_text("ready")
            assert "token" not in other.url
            other.click("#play-sample")
            expect(other.locator("#connection")).to_contain_text("busy")
            expect(other.locator("#notice-text")).to_contain_text("Trying again by itself.")
            page.close()
            expect(other.locator("#connection")).to_have_text("connected")
            expect(other.locator("#notice")).to_be_hidden()


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
                expect(page.locator("#recording")).to_be_visible()
                time.sleep(1.2)
                page.mouse.up()
                expect(row.locator(".clips li")).to_have_count(count)
        page.keyboard.press("r")  # the marked one is the last
        expect(page.locator("#countdown")).to_be_visible()
        page.keyboard.press("Escape")
        expect(page.locator("#countdown")).to_be_hidden()
        row.locator(".clips button").first.click()
        expect(row.locator(".clips li")).to_have_count(1)
        page.click("#pause")  # leaves the machine to the lesson
        page.fill("#minutes", "0.05")
        page.click("#train")
        expect(page.locator("#progress")).to_be_visible()
        expect(page.locator("#notice-text")).to_contain_text("mine is ready", timeout=150_000)
        expect(page.locator("#model")).to_have_value("mine")
        page.click("#pause")
        expect(page.locator("#answer")).to_have_text(re.compile("wave|thumb up|not sure"))
        expect(page.locator("#bars li")).to_have_count(2)
