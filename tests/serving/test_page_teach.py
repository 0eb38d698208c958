"""Teaching on the page: record beside the video, add files, delete with undo, train, replace, download."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import browsers
import numpy as np
import pytest
import servers
import videos
from playwright.sync_api import APIResponse, Browser, Locator, Page, Route, expect

from horst.models import save
from horst.serving.frames import split_recording
from horst.video.encode import write_video
from horst.video.frame import Image

pytestmark = pytest.mark.browser
INSIDE = (
    "(element) => { const box = element.getBoundingClientRect();"
    "return box.top >= -1 && box.bottom <= innerHeight + 1 && box.left >= -1 && box.right <= innerWidth + 1 }"
)


def halves() -> Image:
    """A still scene, white on the left and black on the right, of another aspect ratio than any model's."""
    frames = np.zeros((12, 360, 640, 3), np.uint8)
    frames[:, :, :320] = 255
    return frames


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    camera = browsers.write_camera(tmp_path_factory.mktemp("camera") / "camera.y4m", halves())
    with browsers.browser(camera) as running:
        yield running


@pytest.fixture
def server(tmp_path: Path) -> Iterator[servers.Running]:
    with servers.running(tmp_path / "served", name="somethings") as running:
        yield running


def wait_for(page: Page, condition: Callable[[], bool]) -> None:
    """Wait while the handlers of routes run, which they do only inside of Playwright's calls."""
    servers.wait_for(lambda: page.wait_for_timeout(20) or condition())


def stop_time(page: Page) -> None:
    """Timers of the page wait for `page.clock`, which must be installed. It stops at a time that is not over yet."""
    page.clock.pause_at(page.evaluate("Date.now()") / 1000 + 60)


def is_get(route: Route) -> bool:
    return route.request.method == "GET"


def visit(page: Page, server: servers.Running, *labels: str) -> None:
    page.goto(server.url)
    expect(page.locator("#connection")).to_have_text("ready")
    for label in labels:
        page.fill("#label-name", label)
        page.keyboard.press("Enter")
        expect(row(page, label)).to_be_visible()


def row(page: Page, label: str) -> Locator:
    return page.locator(f"#labels > li[data-label='{label}']")


def stored(server: servers.Running) -> dict[str, list[str]]:
    listed = servers.http.get(f"{server.url}/api/recordings").json()["labels"]
    return {one["label"]: [clip["id"] for clip in one["clips"]] for one in listed}


def store(server: servers.Running, label: str, clips: int) -> None:
    for clip in range(clips):
        body = servers.recording(8 + clip)
        assert servers.http.post(f"{server.url}/api/recordings/{label}", content=body).status_code == 201


def test_teaching_is_beside_the_video(browser: Browser, server: servers.Running) -> None:
    with browsers.page(browser, viewport={"width": 1280, "height": 800}) as page:
        visit(page, server)
        video, teach = page.locator("#stage").bounding_box(), page.locator("#teach").bounding_box()
        assert video is not None
        assert teach is not None
        assert teach["x"] >= video["x"] + video["width"]
        assert abs(teach["y"] - video["y"]) < 40
        expect(page.locator("#train")).to_be_in_viewport()


@pytest.mark.parametrize("width", [360, 1280])
def test_nobody_records_blind(browser: Browser, server: servers.Running, width: int) -> None:
    """Record starts the camera, and the video with the countdown is in view; then the page scrolls back."""
    with browsers.page(browser, viewport={"width": width, "height": 740}) as page:
        visit(page, server, "wave")
        button = row(page, "wave").locator(".record")
        button.scroll_into_view_if_needed()
        page.evaluate("() => scrollBy(0, 300)")
        before = page.evaluate("() => scrollY")
        button.dispatch_event("click")
        expect(page.locator("#countdown")).to_be_visible()
        assert page.locator("#stage").evaluate(INSIDE)
        assert page.locator("#countdown").evaluate(INSIDE)
        expect(row(page, "wave").locator(".record")).to_have_text("Stop")
        expect(page.locator("#recording")).to_be_visible()
        assert page.locator("#recording").evaluate(INSIDE)
        expect(row(page, "wave").locator(".clips li")).to_have_count(1)
        expect(row(page, "wave").locator(".record")).to_have_text("Record")
        assert abs(page.evaluate("() => scrollY") - before) < 160  # the row has grown


def test_camera_is_mirrored_and_its_frames_are_not(
    browser: Browser, server: servers.Running, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Left is left for the model, as in files: sent and recorded frames are as the camera gives them."""
    from horst.serving import websocket

    sent: list[Image] = []

    def decode(*args: object) -> Image:
        sent.append(original(*args))
        return sent[-1]

    original = websocket.decode_image
    monkeypatch.setattr(websocket, "decode_image", decode)
    style = "(id) => getComputedStyle(document.getElementById(id)).transform"
    with browsers.page(browser) as page:
        visit(page, server, "wave")
        page.click("#use-camera")
        expect(page.locator("#bars li")).not_to_have_count(0)
        assert page.evaluate(style, "video") == page.evaluate(style, "heat") == "matrix(-1, 0, 0, 1, 0, 0)"
        row(page, "wave").locator(".record").hover()
        page.mouse.down()
        expect(page.locator("#recording")).to_have_text(re.compile(r"recording ([1-9]|0\.[6-9])"))
        page.mouse.up()
        expect(row(page, "wave").locator(".clips li")).to_have_count(1)
        write_video(tmp_path / "clip.mp4", [videos.picture(i) for i in range(20)], 10)
        page.set_input_files("#file", tmp_path / "clip.mp4")
        expect(page.locator("#file-name")).to_have_text("clip.mp4")
        expect(page.locator("#stage")).not_to_have_class(re.compile("mirrored"))
        assert page.evaluate(style, "video") == page.evaluate(style, "heat") == "none"
    (clip,) = stored(server)["wave"]
    body = servers.http.get(f"{server.url}/api/recordings/wave/{clip}").content
    recorded = [image for _, image in split_recording(body, servers.Limits())]
    assert recorded[0].shape == (216, 384, 3)  # the aspect ratio of the camera, the longest side 384
    first = next(image for image in sent if image.any())  # Chromium's camera may begin with a black frame
    for image in (first, recorded[0]):
        middle = image.shape[1] // 2
        assert image[:, : middle - 4].mean() > 200
        assert image[:, middle + 4 :].mean() < 50


def test_clips_are_playable_thumbnails(browser: Browser, server: servers.Running) -> None:
    store(server, "wave", 2)
    requests: list[str] = []
    # a pixel in the left half
    drawn = "(canvas) => canvas.getContext('2d').getImageData(canvas.width / 4, canvas.height / 2, 1, 1).data[0]"
    with browsers.page(browser, viewport={"width": 360, "height": 500}) as page:
        page.on("request", lambda request: requests.append(request.url))
        visit(page, server)
        expect(row(page, "wave").locator(".thumb")).to_have_count(2)
        assert not [url for url in requests if "/api/recordings/wave/" in url]  # out of view: not loaded
        thumb = row(page, "wave").locator(".thumb").first
        thumb.scroll_into_view_if_needed()
        canvas = thumb.locator("canvas")
        opaque = (
            "() => document.querySelector('#labels canvas').getContext('2d').getImageData(9, 9, 1, 1).data[3] === 255"
        )
        page.wait_for_function(opaque, polling=100)  # by default at each repaint, of which a busy machine has few
        assert canvas.evaluate(drawn) <= 4
        expect(thumb).to_have_attribute("aria-label", "Play clip 1 of wave, 0.7 s")
        for start, stop in ((thumb.hover, lambda: page.mouse.move(1, 1)), (thumb.focus, thumb.blur)):
            start()
            values = {canvas.evaluate(drawn) for _ in range(60) if page.wait_for_timeout(20) is None}
            assert len(values) >= 4, values  # frame i has a brightness of 4 i
            stop()
            expect(thumb).not_to_have_attribute("data-playing", "yes")
        page.wait_for_timeout(200)
        assert canvas.evaluate(drawn) <= 4
        thumb.click()
        expect(thumb).to_have_attribute("data-playing", "yes")


def test_files_are_clips(browser: Browser, server: servers.Running, tmp_path: Path) -> None:
    for name, frames in (("one", 20), ("two", 20), ("three", 20), ("long", 120)):
        videos.clip(tmp_path / f"{name}.mp4", frames=frames, fps=10)
    (tmp_path / "broken.mp4").write_bytes(b"no video")
    with browsers.page(browser, "422") as page:
        visit(page, server, "wave")
        with page.expect_file_chooser() as chooser:
            row(page, "wave").get_by_role("button", name="Add video files of wave").click()
        assert chooser.value.is_multiple()
        chooser.value.set_files([tmp_path / "one.mp4", tmp_path / "two.mp4"])
        expect(row(page, "wave").locator(".clips li")).to_have_count(2)
        row(page, "wave").locator("input[type=file]").set_input_files(
            [tmp_path / "long.mp4", tmp_path / "broken.mp4", tmp_path / "three.mp4"]
        )
        expect(page.locator("#notice-text")).to_contain_text("Long.mp4: the video lasts 12.0 s; a clip may last 10 s")
        expect(page.locator("#notice-text")).to_contain_text("broken.mp4: this is not a video")
        expect(row(page, "wave").locator(".clips li")).to_have_count(3)
        data = list((tmp_path / "one.mp4").read_bytes())
        page.evaluate(
            "(bytes) => { const data = new DataTransfer();"
            "data.items.add(new File([new Uint8Array(bytes)], 'dropped.mp4', { type: 'video/mp4' }));"
            "const row = document.querySelector('#labels > li[data-label=nothing]');"
            "row.dispatchEvent(new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true })) }",
            data,
        )
        expect(row(page, "nothing").locator(".clips li")).to_have_count(1)
    assert {label: len(clips) for label, clips in stored(server).items()} == {"wave": 3, "nothing": 1}


def test_nothing_is_always_there(browser: Browser, server: servers.Running) -> None:
    store(server, "nothing", 1)
    store(server, "wave", 1)
    with browsers.page(browser) as page:
        visit(page, server)
        expect(page.locator("#labels > li")).to_have_count(2)
        expect(page.locator("#labels > li").last).to_have_attribute("data-label", "nothing")
        expect(row(page, "nothing")).to_contain_text("Idle, other movements, empty scene. Optional, but recommended.")
        expect(row(page, "nothing").get_by_role("button", name="Remove nothing")).to_have_count(0)
        row(page, "nothing").get_by_role("button", name="Delete clip 1 of nothing").click()
        expect(row(page, "nothing").locator(".clips li")).to_have_count(0)
        expect(row(page, "nothing")).to_be_visible()


def test_deleting_can_be_undone(browser: Browser, server: servers.Running) -> None:
    store(server, "wave", 2)
    store(server, "point", 1)
    first, second = stored(server)["wave"]
    with browsers.page(browser) as page:
        page.clock.install()
        visit(page, server)
        stop_time(page)  # or a slow machine deletes before it clicks
        page.get_by_role("button", name="Delete clip 1 of wave").click()
        expect(row(page, "wave").locator(".clips li")).to_have_count(1)
        expect(page.locator("#undo li")).to_contain_text("Deleted.")
        assert stored(server)["wave"] == [first, second]
        page.click("#undo button")
        expect(row(page, "wave").locator(".clips li")).to_have_count(2)
        expect(page.locator("#undo li")).to_have_count(0)
        page.get_by_role("button", name="Remove point and its clips").click()
        page.get_by_role("button", name="Delete clip 2 of wave").click()
        expect(page.locator("#undo li")).to_have_count(2)
        expect(row(page, "point")).to_have_count(0)
        page.clock.run_for(5_500)
        assert set(stored(server)) == {"wave", "point"}
        expect(page.locator("#undo li")).to_have_count(2)
        page.clock.run_for(1_000)
        expect(page.locator("#undo li")).to_have_count(0)
        servers.wait_for(lambda: stored(server) == {"wave": [first]})
        page.get_by_role("button", name="Delete clip 1 of wave").click()
        page.goto("about:blank")  # leaving the page deletes at once
        servers.wait_for(lambda: stored(server) == {})


def test_clip_that_is_not_deleted_is_shown_again(browser: Browser, server: servers.Running) -> None:
    store(server, "wave", 1)
    with browsers.page(browser, "500") as page:
        answer = {"error": {"message": "the disk is full", "code": "internal"}}
        page.route(
            "**/api/recordings/wave/*",
            lambda route: route.fallback() if is_get(route) else route.fulfill(status=500, json=answer),
        )
        page.clock.install()
        visit(page, server)
        stop_time(page)
        page.get_by_role("button", name="Delete clip 1 of wave").click()
        expect(row(page, "wave").locator(".clips li")).to_have_count(0)
        page.evaluate("dispatchEvent(new Event('pagehide'))")  # delete at once
        expect(page.locator("#notice-text")).to_contain_text("The disk is full")
        expect(row(page, "wave").locator(".clips li")).to_have_count(1)


@pytest.mark.parametrize("delete", ["Delete clip 1 of wave", "Remove wave and its clips"])
def test_clip_is_deleted_before_its_thumbnail_is_loaded(delete: str, browser: Browser, server: servers.Running) -> None:
    """The page ends the request, which would be answered with 404 after the deletion."""
    store(server, "wave", 1)
    held: list[Route] = []
    with browsers.page(browser) as page:
        page.route("**/api/recordings/wave/*", lambda route: held.append(route) if is_get(route) else route.fallback())
        visit(page, server)
        wait_for(page, lambda: bool(held))
        with page.expect_event("requestfailed", lambda failed: failed == held[0].request):
            page.get_by_role("button", name=delete).click()
            page.evaluate("dispatchEvent(new Event('pagehide'))")  # delete at once
        wait_for(page, lambda: stored(server) == {})
        held[0].continue_()
        page.wait_for_timeout(200)


@pytest.mark.parametrize("newest_first", [True, False])
def test_list_that_arrives_late_shows_no_deleted_clip(
    newest_first: bool, browser: Browser, server: servers.Running
) -> None:
    """Two deletions follow each other, and the lists after them arrive late, in either order."""
    store(server, "wave", 2)
    lists: list[tuple[Route, APIResponse]] = []

    def hold(route: Route) -> None:
        lists.append((route, route.fetch()))

    with browsers.page(browser) as page:
        visit(page, server)
        page.route("**/api/recordings", hold)
        for deleted in (1, 2):
            page.get_by_role("button", name="Delete clip 1 of wave").click()
            page.evaluate("dispatchEvent(new Event('pagehide'))")  # delete at once
            wait_for(page, lambda: len(lists) == deleted)  # noqa: B023
            expect(row(page, "wave").locator(".clips li")).to_have_count(2 - deleted)
        assert [len(answer.json()["labels"]) for _, answer in lists] == [1, 0]
        for route, answer in reversed(lists) if newest_first else lists:
            route.fulfill(response=answer)
            page.wait_for_timeout(300)
            page.fill("#label-name", f"label {route.request.timing['startTime']}")  # a new label draws all again
            page.keyboard.press("Enter")
            expect(row(page, "wave").locator(".clips li")).to_have_count(0)


def test_label_that_was_deleted_can_be_recorded_again(browser: Browser, server: servers.Running) -> None:
    """The new clip is not deleted with the old ones."""
    store(server, "wave", 1)
    with browsers.page(browser) as page:
        visit(page, server)
        page.get_by_role("button", name="Remove wave and its clips").click()
        page.fill("#label-name", "wave")
        page.keyboard.press("Enter")
        expect(row(page, "wave")).to_contain_text("0 clips")
        assert stored(server) == {}
        store(server, "wave", 1)
        page.wait_for_timeout(6500)
        assert len(stored(server)["wave"]) == 1


DONE = {
    "state": "done",
    "progress": 1.0,
    "accuracy": 0.85,
    "model": "mine",
    "message": "done",
    "labels": [
        {"label": "wave", "clips": 10, "correct": 10, "confused": {}},
        {"label": "stop", "clips": 10, "correct": 7, "confused": {"wave": 2, "nothing": 1}},
    ],
    "advice": ['Record more clips of "stop": 3 of 10 were taken for "wave" or "nothing".'],
}


def test_results_and_replacing(browser: Browser, server: servers.Running) -> None:
    """With answers of a server that has trained: how long and how well is not what this tests."""
    asked: list[dict[str, object]] = []
    state: dict[str, object] = {"state": "idle", "progress": 0.0, "labels": [], "advice": []}
    with browsers.page(browser, "409") as page:

        def teach(route: object) -> None:
            request = route.request
            if request.method == "POST":
                asked.append(request.post_data_json)
                if not asked[-1].get("overwrite"):
                    error = {"error": {"code": "exists", "message": "there is a model 'mine' already"}}
                    return route.fulfill(status=409, json=error)
                state.update(state="running", progress=0.5)
                return route.fulfill(status=202, json=state)
            answer = dict(state)
            if state["state"] == "running":
                state.update(DONE)
            return route.fulfill(json=answer)

        page.route("**/api/teach", teach)
        save(servers.tiny(), server.folder / "models" / "mine")
        visit(page, server)
        expect(page.locator("#results")).to_be_hidden()
        expect(page.locator("#train-form input[type=radio]")).to_have_count(0)
        page.click("#train")
        expect(page.locator("#replace")).to_be_visible()
        expect(page.locator("#replace-title")).to_have_text("Replace the model mine?")
        page.locator("#replace").get_by_role("button", name="Cancel").click()
        assert [one.get("overwrite") for one in asked] == [None]
        page.click("#train")
        page.locator("#replace").get_by_role("button", name="Replace").click()
        expect(page.locator("#train-text")).to_have_text("mine is ready. Accuracy on held-out clips: 85%.")
        assert asked[-1] == {"name": "mine", "overwrite": True}
        rows = page.locator("#result-rows tr")
        expect(rows.first).to_have_text(re.compile("wave.*10 of 10"))
        expect(rows.last).to_contain_text("2 taken for “wave”, 1 taken for “nothing”")
        assert "0.7" in rows.last.locator(".fill").evaluate("(bar) => bar.style.transform")
        expect(page.locator("#advice")).to_have_text(str(DONE["advice"][0]))
        expect(page.locator("#model")).to_have_value("mine")


def test_downloads_with_a_token(browser: Browser, tmp_path: Path) -> None:
    with (
        servers.running(tmp_path / "served", name="somethings", token="a-long-token") as server,
        browsers.page(browser) as page,
    ):
        save(servers.tiny(), server.folder / "models" / "mine")
        page.goto(f"{server.url}#token=a-long-token")
        expect(page.locator("#connection")).to_have_text("ready")
        expect(page.locator("#downloads")).to_be_hidden()  # not a model that was trained here
        page.select_option("#model", "mine")
        with page.expect_download() as download:
            page.click("#download-model")
        assert download.value.suggested_filename == "mine.zip"
        with zipfile.ZipFile(io.BytesIO(Path(download.value.path()).read_bytes())) as archive:
            assert "model.safetensors" in archive.namelist()
        page.select_option("#model", "somethings")
        expect(page.locator("#samples button")).to_have_count(6)  # those of this model
        page.click("#play-sample")
        expect(page.locator("#bars li")).not_to_have_count(0, timeout=90_000)  # the clip is rendered on first use
        page.click("#pause")
        with page.expect_download(timeout=60_000) as download:
            page.click("#download-video")
        assert download.value.suggested_filename == "sample-1-predictions.mp4"
        assert Path(download.value.path()).read_bytes()[4:8] == b"ftyp"


def test_own_clips_are_the_samples_of_a_taught_model(browser: Browser, server: servers.Running) -> None:
    import horst

    labelled = horst.create_model("horst_tiny", labels={"action": ["wave", "point"]}, num_classes=2).eval()
    save(labelled, server.folder / "models" / "mine")
    store(server, "wave", 2)
    with browsers.page(browser) as page:
        visit(page, server)
        page.select_option("#model", "mine")
        expect(page.locator("#samples button")).to_have_count(2)
        expect(page.locator("#samples-note")).to_be_visible()
        page.locator("#samples button").first.click()
        expect(page.locator("#truth")).to_have_text("Sample: wave")
        expect(page.locator("#answer")).to_have_text(re.compile("wave|point|not sure"))
        expect(page.locator("#synthetic")).to_be_hidden()
