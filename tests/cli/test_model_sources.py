"""Every command opens a model in the same ways: by name, from a folder, a run, or hf://user/name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import small_place
import torch
import yaml
from small_hub import hub
from small_place import LABELS, TINY

import horst
from horst.cli import main
from horst.data.config import DataConfig
from horst.data.source import open_source
from horst.errors import CheckpointError, ConfigError
from horst.finetune import finetune
from horst.models.hub import find_device, model_folder, open_config
from horst.places import model_title
from horst.training.build import initialise
from horst.training.config import RunConfig

HUB = "hf://some-one/a.model"


@dataclass(frozen=True)
class Place:
    """A data set, and one model under all kinds of names."""

    root: Path
    sources: dict[str, str]
    asked: list[str]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    root = tmp_path_factory.mktemp("opening")
    small_place.build(root)
    with hub({"some-one/a.model": root / "saved"}, root / "cache") as server:
        server.repositories["some-one/a.model"].names["v1"] = server.repositories["some-one/a.model"].names["main"]
        sources = {"folder": str(root / "saved"), "run": str(root / "run"), "hub": HUB, "revision": f"{HUB}@v1"}
        yield Place(root, sources, server.asked)


@pytest.fixture(params=["folder", "run", "hub", "revision"])
def source(request: pytest.FixtureRequest, place: Place) -> str:
    return place.sources[request.param]


def same(model: horst.Predictor, place: Place) -> bool:
    other = horst.open_model(place.root / "saved").state_dict()
    return all(torch.equal(value, other[name]) for name, value in model.state_dict().items())


def test_open_model(place: Place, source: str) -> None:
    model = horst.open_model(source)
    assert same(model, place)
    assert not model.training
    assert model.labels == LABELS
    assert open_config(source) == model.config


def test_folders_come_before_packaged_names(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert horst.open_model("somethings").labels == horst.open_model("somethings").labels
    horst.open_model(place.root / "saved").save_pretrained(tmp_path / "somethings")
    assert same(horst.open_model("somethings"), place)
    with pytest.raises(CheckpointError, match="did you mean 'kitchen'"):
        horst.open_model("kitchn")


def test_weights_of_a_run(place: Place) -> None:
    assert model_folder(place.root / "run") == place.root / "run" / "best"
    with pytest.raises(CheckpointError, match="has no last model yet"):
        horst.open_model(place.root / "run", weights="last")
    (place.root / "run" / "best").rename(place.root / "run" / ".best.old")  # killed between two renames
    try:
        assert same(horst.open_model(place.root / "run"), place)
    finally:
        (place.root / "run" / ".best.old").rename(place.root / "run" / "best")


@pytest.mark.parametrize(
    ("source", "title"),
    [
        ("hf://a/b.c@v1", "b.c"),
        ("hf://a/b/", "b"),
        ("runs/mine/", "mine"),
        ("x@y", "x@y"),
        ("somethings", "somethings"),
    ],
)
def test_titles(source: str, title: str) -> None:
    assert model_title(source) == title


def test_devices() -> None:
    assert find_device("cpu") == torch.device("cpu")
    assert find_device("auto").type in ("cpu", "cuda")
    for name in ("gpu", "cuda:99", "", "meta9"):
        with pytest.raises(ConfigError, match="it takes auto, cpu, cuda"):
            find_device(name)


def test_info(place: Place, source: str, capsys: pytest.CaptureFixture[str]) -> None:
    place.asked.clear()
    assert main(["info", source, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["config"]["size"] == [24, 32]
    if source == HUB:  # the weights are not fetched for it
        assert not any("safetensors" in path for path in place.asked)
    assert main(["info", source, "--variant", "paper"]) == 2


def test_predict(place: Place, source: str, capsys: pytest.CaptureFixture[str]) -> None:
    clip = place.root / "clips/val/wave/val.mp4"
    assert main(["predict", source, str(clip), "--json"]) == 0
    said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert said
    assert {one["name"] for one in said[0]["top"]["action"]} == set(LABELS["action"])


def test_evaluate_and_report(place: Place, source: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = ["--data", str(place.root / "data.yaml")]
    assert main(["evaluate", source, *data, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["counts"]["examples"] == 2
    assert main(["report", source, *data, "--clips", "0", "--output", str(tmp_path / "page.html")]) == 0
    assert (
        f"<h1>{'run' if source.endswith('run') else model_title(source)}: early" in (tmp_path / "page.html").read_text()
    )


def test_export(place: Place, source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to the trace, which takes seconds."""
    given = []

    def export_model(model: horst.Predictor, path: Path, **options: object) -> None:
        given.append((model, path))
        raise ConfigError("enough")

    monkeypatch.setattr("horst.export.export_model", export_model)
    assert main(["export", source]) == 2
    ((model, path),) = given
    assert same(model, place)
    assert path == Path(f"{model_title(source)}-step.onnx")


def test_extract(place: Place, source: str, tmp_path: Path) -> None:
    assert main(["extract", str(place.root / "data.yaml"), str(tmp_path / "maps"), "--weights", source]) == 0


def test_serve(place: Place, source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    served = []

    class Over:
        def run(self, sockets: object) -> None: ...

    monkeypatch.setattr("horst.serving.server.create_server", lambda app, **options: served.append(app) or Over())
    monkeypatch.setattr("torch.set_num_threads", lambda count: None)
    made = []
    monkeypatch.setattr("horst.serving.app.create_app", lambda model, folder, **options: made.append((model, options)))
    assert main(["serve", source, "--port", "0", "--folder", str(tmp_path)]) == 0
    ((model, options),) = made
    assert same(model, place)
    assert options["name"] == model_title(source)


def test_init(place: Place, source: str) -> None:
    """Of a run, in its file and on the command line; an address is no path."""
    config = RunConfig.from_file(place.root / "run.yaml", [f"model.init={source}"])
    assert config.model.init == source
    plain = yaml.safe_load((place.root / "run.yaml").read_text())
    plain["model"]["init"] = source
    (place.root / "init.yaml").write_text(yaml.safe_dump(plain))
    assert RunConfig.from_file(place.root / "init.yaml").model.init == source
    model = horst.create_model("horst_tiny", num_classes=2, size=(24, 32), fps=4.0, labels=LABELS, **TINY)
    assert initialise(model, source)
    assert same(model, place)


def test_finetune(place: Place, source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to the training of the head."""
    given = []

    def train(job: object, base: horst.Predictor, *_: object) -> None:
        given.append(base)
        raise ConfigError("enough")

    monkeypatch.setattr("horst.finetune.frozen.train", train)
    reader = open_source(DataConfig.from_file(place.root / "data.yaml"))
    clips = {label: [lambda: None] * 3 for label in LABELS["action"]}
    assert reader.annotations.classes["action"] == tuple(LABELS["action"])
    with pytest.raises(ConfigError, match="enough"):
        finetune(clips, tmp_path / "mine", base=source)  # type: ignore[arg-type]
    assert same(given[0], place)


@pytest.mark.parametrize("command", ["info", "export", "serve", "predict", "evaluate", "report"])
@pytest.mark.parametrize("source", ["hf://some-one/none", "hf://nobody", "nothing/here"])
def test_missing_models(place: Place, command: str, source: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(place.root / "data.yaml")  # it exists: what is wrong is the model
    more = {"predict": [file], "evaluate": ["--data", file], "serve": ["--port", "0"]}
    more["report"] = more["evaluate"]
    assert main([command, source, *more.get(command, [])]) == 2
    error = capsys.readouterr().err
    assert source in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("source", ["", ".", "..", "/"])
def test_paths_without_a_name(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for command in (["info", source], ["predict", source, "clip.mp4"], ["evaluate", source]):
        assert main(command) == 2
        assert capsys.readouterr().err.startswith("horst: ")
