"""The examples of the API page, run as they are copied."""

from __future__ import annotations

import html
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import browsers
import pytest
import videos
from playwright.sync_api import Browser, expect
from servers import Running, http, running

CODE = re.compile(r'<code data-example="(\w+)" data-language="(\w+)">(.*?)</code>', re.S)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("served") / "folder") as server:
        yield server


@pytest.fixture(scope="module")
def examples(server: Running) -> dict[tuple[str, str], str]:
    """By task and language."""
    found = CODE.findall(http.get(f"{server.url}/docs").text)
    return {(example, language): html.unescape(code) for example, language, code in found}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With the videos that the examples read."""
    clip = videos.clip(tmp_path / "clip.mp4", frames=20, fps=10)
    for label in ("wave", "point"):
        (tmp_path / "clips" / label).mkdir(parents=True)
        shutil.copy(clip, tmp_path / "clips" / label / "1.mp4")
    return tmp_path


def run(folder: Path, *command: str) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_there_are_examples_in_all_languages(server: Running, examples: dict[tuple[str, str], str]) -> None:
    languages = {"predict": {"curl", "python", "javascript"}, "live": {"python", "javascript"}}
    languages["teach"] = languages["predict"]
    assert {(task, language) for task, known in languages.items() for language in known} == set(examples)
    assert all(server.url.removeprefix("http://") in code for code in examples.values())


@pytest.mark.parametrize("task", ["predict", "live"])
def test_python(task: str, examples: dict[tuple[str, str], str], folder: Path) -> None:
    lines = run(folder, sys.executable, "-c", examples[task, "python"]).splitlines()
    assert [float(line.split()[0]) for line in lines] == pytest.approx([i / 5 for i in range(10)], abs=0.01)
    assert all(re.search(r"action \d$", line) for line in lines)


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_curl(server: Running, examples: dict[tuple[str, str], str], folder: Path) -> None:
    found = run(folder, "bash", "-c", examples["predict", "curl"])
    assert found.count('"answer":') == 10
    found = run(folder, "bash", "-ec", examples["teach", "curl"])
    assert '"label":"wave"' in found
    assert '"label":"point"' in found
    assert '"state":"running"' in found
    http.delete(f"{server.url}/api/teach")
    for label in ("wave", "point"):
        http.delete(f"{server.url}/api/recordings/{label}")


@pytest.mark.slow
@pytest.mark.usefixtures("eager_finetuning")
def test_python_teaches_a_model(server: Running, examples: dict[tuple[str, str], str], folder: Path) -> None:
    found = run(folder, sys.executable, "-c", examples["teach", "python"])
    assert found.startswith("done mine"), found
    assert "mine" in [model["name"] for model in http.get(f"{server.url}/api/models").json()]
    for label in ("wave", "point"):
        http.delete(f"{server.url}/api/recordings/{label}")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browsers.browser(tmp_path_factory.mktemp("camera") / "none.y4m") as running:
        yield running


@pytest.mark.browser
def test_copy_button_and_javascript(browser: Browser, server: Running, examples: dict[tuple[str, str], str]) -> None:
    with browsers.page(browser, "422", permissions=["clipboard-read", "clipboard-write"]) as page:
        page.goto(f"{server.url}/docs")
        expect(page.get_by_role("button")).to_have_count(len(examples))
        page.get_by_role("button", name="Copy the curl example").first.click()
        expect(page.get_by_text("Copied")).to_be_visible()
        assert page.evaluate("() => navigator.clipboard.readText()") == examples["predict", "curl"]
        sample = f"fetch('{server.url}/api/samples/sample-1.mp4').then((answer) => answer.blob())"
        predictions = page.evaluate(
            f"async () => {{ {examples['predict', 'javascript']}; return predict(await {sample}) }}"
        )
        assert len(predictions) > 5
        page.evaluate(
            f"async () => {{ {examples['live', 'javascript']}\n"
            "const canvas = Object.assign(document.createElement('canvas'), { width: 64, height: 48 });"
            "window.socket = watch(canvas, (answer) => (window.answer = answer)) }"
        )
        page.wait_for_function("() => window.answer", polling=100)
        page.evaluate("() => window.socket.close()")
        taught = page.evaluate(
            f"async () => {{ {examples['teach', 'javascript']}; const file = await {sample};"
            "return teach('page', { left: [file] }).catch((error) => error.message) }"
        )
        assert "at least two" in taught
