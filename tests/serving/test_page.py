"""The page in a real browser, against a real server: sources, keyboard, phones, errors and finetuning."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import browsers
import pytest
import servers
from playwright.sync_api import Browser, Page, expect

import horst
from horst.models import Predictor
from horst.serving import Limits

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
    expect(page.locator("#samples button")).to_have_count(6)
    expect(page.locator("#connection")).to_have_text("ready")


def expect_nothing_old(page: Page) -> None:
    """No answer, bars, lines, attention or past frames."""
    expect(page.locator("#answer")).to_have_text("no prediction yet")
    expect(page.locator("#chance")).to_have_text("")
    expect(page.locator("#bars li")).to_have_count(0)
    expect(page.locator("#legend li")).to_have_count(0)
    expect(page.locator("#age")).not_to_have_text(re.compile(r"\d"))
    for canvas in ("#heat", "#strip canvas"):
        drawn = "(all) => all.some((c) => c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some((v) => v))"
        assert not page.locator(canvas).evaluate_all(drawn), canvas


def test_sample_is_predicted_correctly(browser: Browser, url: str) -> None:
    with browsers.page(browser) as page:
        visit(page, url)
        page.click("#play-sample")
        expect(page.locator("#answer")).to_have_class(re.compile("right"))  # the label of the sample
        expect(page.locator("#answer")).to_have_text("Lifting something up and putting it back")
        expect(page.locator("#bars li[data-lead]")).to_contain_text("Lifting something up and putting it back")
        expect(page.locator("#chance")).to_have_text(re.compile(r"^\d+%$"))
        expect(page.locator("#truth")).to_have_text("Sample: Lifting red duck up and putting it back")
        expect(page.locator("#when")).to_be_hidden()
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
        page.set_input_files("#file", path)
        expect(page.locator("#answer")).to_have_text(clip[0])
        page.set_input_files("#file", tmp_path / "broken.mp4")
        expect(page.locator("#notice-text")).to_contain_text("cannot play broken.mp4")
        expect(page.locator("#connection")).to_have_text("file not playable")
        expect_nothing_old(page)
        expect(page.locator("#welcome")).to_be_visible()
        expect(page.locator("#pause")).to_be_disabled()
        page.wait_for_timeout(700)
        expect_nothing_old(page)
        page.set_input_files("#file", path)
        expect(page.locator("#file-name")).to_have_text("clip.mp4")
        expect(page.locator("#answer")).to_have_text(clip[0])
        expect(page.locator("#notice")).to_be_hidden()


def test_keyboard(browser: Browser, url: str) -> None:
    with browsers.page(browser, reduced_motion="reduce") as page:
        visit(page, url)
        reached = []
        for _ in range(60):
            page.keyboard.press("Tab")
            name, outline = page.evaluate(
                "() => [document.activeElement.id, getComputedStyle(document.activeElement).outlineStyle]"
            )
            assert outline != "none" or not name, f"#{name} has no visible focus"
            reached.append(name)
        controls = "model help play-sample use-sample use-camera use-file next-sample show-heat reset-policy threshold"
        teaching = "label-name model-name train"
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
        expect(page.locator("#samples [data-name=sample-2]")).to_have_attribute("aria-pressed", "true")
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
            # the row of samples scrolls by itself
            "() => [...document.querySelectorAll('body *:not(option, .skip, .unseen, #samples *)')]"
            ".filter((e) => e.getBoundingClientRect().right > innerWidth + 1).map((e) => e.outerHTML)"
        )
        assert page.evaluate(wide) == []
        assert page.evaluate("() => document.documentElement.scrollWidth") == width


def test_reconnects(browser: Browser, tmp_path: Path) -> None:
    model = servers.tiny()
    with browsers.page(browser, *LOST) as page:
        with browsers.served(model, tmp_path) as url:
            visit(page, url)
            expect(page.locator("#samples img[src^=blob]")).to_have_count(6)  # nothing is being rendered at the end
            page.click("#use-camera")
            expect(page.locator("#bars li")).not_to_have_count(0)
        expect(page.locator("#connection")).to_contain_text("connection lost, retrying in")
        expect_nothing_old(page)
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
        with browsers.page(browser, "503") as other:
            other.goto(f"{url}#token=a-long-token")
            expect(other.locator("#connection")).to_have_text("ready")
            assert "token" not in other.url
            other.click("#play-sample")
            expect(other.locator("#connection")).to_contain_text("busy")
            expect(other.locator("#notice-text")).to_have_text("Server full. Retrying...")
            page.close()
            expect(other.locator("#connection")).to_have_text("connected")
            expect(other.locator("#notice")).to_be_hidden()


def test_next_actions_of_the_kitchen(browser: Browser, url: str) -> None:
    with browsers.page(browser) as page:
        visit(page, url)
        page.select_option("#model", "kitchen")
        expect(page.locator("#samples button")).to_have_count(4)
        expect(page.locator("#samples img[src^=blob]")).to_have_count(4, timeout=120_000)  # rendered on first use
        page.click("#play-sample")
        expect(page.locator("#when")).to_have_text("Next, within 2 s:")  # the model's anticipation time
        expect(page.locator("#truth")).to_have_text(re.compile("^True next action: "))
        expect(page.locator("#answer")).to_have_class(re.compile("right"))
        page.select_option("#model", "somethings")  # plays a sample of its own
        expect(page.locator("#truth")).to_have_text("Sample: Lifting red duck up and putting it back")
        expect(page.locator("#when")).to_be_hidden()


def test_synthetic_models_are_not_for_the_camera(browser: Browser, url: str) -> None:
    with browsers.page(browser, viewport={"width": 360, "height": 640}) as page:
        visit(page, url)
        page.click("#play-sample")
        expect(page.locator("#bars li")).not_to_have_count(0)
        expect(page.locator("#synthetic")).to_be_hidden()
        page.click("#use-camera")
        expect(page.locator("#synthetic")).to_contain_text("This model knows synthetic clips only.")
        page.click("#go-teach")
        expect(page.locator("#label-name")).to_be_focused()
        expect(page.locator("#label-name")).to_be_in_viewport()
        page.click("#use-sample")
        expect(page.locator("#synthetic")).to_be_hidden()


FEED = """async () => {
  const { Bars } = await import("/bars.js");
  const { Answer } = await import("/answer.js");
  const { Palette } = await import("/palette.js");
  const [bars, answer, seen] = [new Bars(new Palette()), new Answer(), []];
  answer.threshold = 0.3;
  const start = performance.now();
  for (let i = 0; performance.now() - start < 2300; i++) {
    const chance = i % 2 ? 0.6 : 0.4; // two classes lead in turn
    const top = [["a", chance + 0.001 * i], ["b", 1 - chance - 0.001 * i], ["c", 0]].sort((x, y) => y[1] - x[1]);
    bars.show(top.map(([name, probability]) => ({ name, probability })));
    answer.show({ action: [{ name: "steady", probability: 0.5 + 0.01 * (i % 30) }] });
    const rows = [...document.querySelectorAll("#bars li")];
    const place = (row) => Number(row.style.transform.match(/[\\d.]+/)[0]);
    const sorted = rows.toSorted((x, y) => place(x) - place(y));
    const order = sorted.map((row) => row.querySelector(".name").textContent).join("");
    const numbers = rows.map((row) => row.querySelector(".value").textContent).join();
    seen.push([performance.now() - start, order, numbers, document.querySelector("#chance").textContent]);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  return seen;
}"""


def test_answers_can_be_read(browser: Browser, url: str) -> None:
    """Rows change places at most once per second, numbers four times; they are whole percents."""
    with browsers.page(browser) as page:
        visit(page, url)
        seen = page.evaluate(FEED)

        def changes(column: int) -> list[float]:
            return [after[0] for before, after in pairwise(seen) if before[column] != after[column]]

        assert len(seen) > 30
        assert len(changes(1)) <= 2
        for column in (2, 3):
            assert 2 <= len(changes(column)) <= 10
            assert all(b - a > 200 for a, b in pairwise(changes(column)))
        assert all(re.fullmatch(r"(\d+%,?)+", numbers) for _, _, numbers, _ in seen)
        held = """async () => {
          const { Answer } = await import("/answer.js");
          const answer = new Answer();
          answer.threshold = 0.5;
          return [["a", 0.4], ["a", 0.6], ["a", 0.4], ["b", 0.4], ["b", 0.6], ["a", 0.9]].map(([name, probability]) => {
            answer.show({ action: [{ name, probability }] });
            return document.querySelector("#answer").textContent;
          });
        }"""
        assert page.evaluate(held) == ["not sure", "a", "a", "not sure", "b", "a"]


def test_minimum_confidence(browser: Browser, url: str, tmp_path: Path) -> None:
    """It fits the number of labels until the user chooses one; its name and value are accessible."""
    with browsers.page(browser) as page:
        visit(page, url)
        slider = page.get_by_role("slider", name="Minimum confidence")
        expect(slider).to_have_attribute("aria-valuetext", "20%")  # 24 labels
        with browsers.served(servers.tiny(), tmp_path) as small:
            page.goto(small)
            expect(slider).to_have_attribute("aria-valuetext", "38%")  # 4 labels
            expect(slider).to_have_value("38")
            slider.focus()
            page.keyboard.press("ArrowRight")
            expect(slider).to_have_attribute("aria-valuetext", "39%")
            expect(page.locator("#threshold-value")).to_have_text("39%")
            page.reload()
            expect(slider).to_have_attribute("aria-valuetext", "39%")
            page.goto("about:blank")


SMALL = """() => [...document.querySelectorAll("button, select, input")]
  .map((one) => (one.type === "checkbox" ? one.closest("label") : one))
  .filter((one) => one.checkVisibility())
  .map((one) => [one.id || one.outerHTML, one.getBoundingClientRect()])
  .filter(([, { width, height }]) => width < 44 || height < 44)
  .map(([name, { width, height }]) => `${name} ${width} x ${height}`)"""


@pytest.mark.parametrize("width", [360, 1280])
def test_targets_are_large_enough(browser: Browser, url: str, width: int) -> None:
    """44 pixels each way."""
    body = servers.recording(8)
    clip = servers.http.post(f"{url}/api/recordings/wave", content=body).json()
    with browsers.page(browser, viewport={"width": width, "height": 740}) as page:
        visit(page, url)
        assert page.evaluate(SMALL) == []
        page.click("#use-camera")
        expect(page.locator("#synthetic")).to_be_visible()
        expect(page.locator("#labels .thumb")).to_have_count(1)
        page.get_by_role("button", name="Delete clip 1 of wave").click()
        expect(page.locator("#undo button")).to_be_visible()
        page.click("#help")
        assert page.evaluate(SMALL) == []
        page.keyboard.press("Escape")
        page.click("#play-sample, #use-sample >> visible=true")
        expect(page.locator("#download-video")).to_be_visible()
        page.locator("#notice").evaluate("(notice) => (notice.hidden = false)")
        assert page.evaluate(SMALL) == []
    servers.http.delete(f"{url}/api/recordings/wave/{clip['id']}")


def test_bars_that_are_cleared_while_one_leaves(browser: Browser, url: str) -> None:
    """A row that was leaving must not take a later row of the same name with it."""
    with browsers.page(browser) as page:
        visit(page, url)
        shown = page.evaluate(
            """async () => {
                const { Bars } = await import(new URL("bars.js", document.querySelector("script[type=module]").src));
                const wait = (ms) => new Promise((done) => setTimeout(done, ms));
                const top = (name) => [{ name, probability: 1 }];
                const bars = new Bars({ known: () => 0 });
                bars.show(top("wave"));
                await wait(1050); // the order changes once per second
                bars.show(top("stop")); // wave leaves
                bars.clear();
                bars.show(top("wave"));
                await wait(400);
                bars.show(top("wave"));
                return document.querySelectorAll("#bars li").length;
            }"""
        )
        assert shown == 1
