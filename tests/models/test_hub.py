"""A saved folder is a repository of the Hugging Face Hub: huggingface_hub uploads and downloads it, over HTTP."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import huggingface_hub
import pytest
import torch
import yaml
from huggingface_hub import ModelCard
from small_hub import TOKEN, USER, hub

import horst
from horst.config import Task
from horst.errors import CheckpointError, ExistsError, MissingExtraError
from horst.evaluation.card import card_result
from horst.evaluation.evaluate import Evaluation
from horst.evaluation.measure import primary_metric
from horst.models import Predictor, create_model
from horst.models.checkpoint import add_results


def small() -> Predictor:
    torch.manual_seed(0)
    options: dict[str, Any] = {"hidden": (4,), "stride": (1,), "backbone": {"name": "stem", "widths": [4]}}
    return create_model("horst_tiny", num_classes=2, labels={"action": ["up", "down"]}, **options).eval()


def same(one: Predictor, other: Predictor) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


def result(**metrics: float) -> dict[str, Any]:
    protocol = {"fractions": [0.1, 0.25, 0.5, 1.0]}
    found = card_result(
        Evaluation(data="My Clips", split="val", task="recognition", counts={}, protocol=protocol, metrics=metrics)
    )
    assert found is not None
    return found


@pytest.mark.parametrize("method", ["from_pretrained", "save_pretrained", "push_to_hub"])
def test_the_methods_take_the_arguments_of_the_mixin(method: str) -> None:
    """All but `config` and arguments of a model, which a Predictor has of itself; with the same defaults."""
    theirs = inspect.signature(getattr(huggingface_hub.PyTorchModelHubMixin, method)).parameters
    ours = inspect.signature(getattr(Predictor, method)).parameters
    left = {name: one for name, one in theirs.items() if name not in ("self", "cls", "config", "model_kwargs")}
    assert set(left) <= set(ours)
    assert {name: one.default for name, one in left.items()} == {name: ours[name].default for name in left}
    assert {name: one.kind for name, one in left.items()} == {name: ours[name].kind for name in left}


def test_a_model_is_loaded_from_the_hub(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = small().save_pretrained(tmp_path / "model")
    (folder / "pytorch_model.bin").write_bytes(b"never fetched")
    with hub({"any/a.model": folder}, tmp_path / "cache", token=None) as server:
        repository = server.repositories["any/a.model"]
        repository.names["v1.0"] = repository.names["main"]
        repository.commit("main", {"config.json": b"{}"}, "break it")
        for model in (
            horst.open_model("hf://any/a.model@v1.0"),
            Predictor.from_pretrained("any/a.model", revision="v1.0"),
            Predictor.from_pretrained("hf://any/a.model", revision=repository.names["v1.0"]),
        ):
            assert model.labels == {"action": ["up", "down"]}
            assert same(model, small())
        assert capfd.readouterr() == ("", "")  # no bars without a terminal
        fetched = {path.rpartition("/")[2] for path in server.asked if path.startswith("GET") and "/resolve/" in path}
        assert fetched == {"config.json", "model.safetensors", "labels.json", "README.md"}
        with pytest.raises(CheckpointError, match=r"hf://any/a.model has no model.safetensors, so it is not a saved"):
            horst.open_model("hf://any/a.model")


def test_offline_the_cache_serves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = small().save_pretrained(tmp_path / "model")
    cache = tmp_path / "cache"
    with hub({"any/one": folder, "any/two": folder}, cache) as server:
        with pytest.raises(CheckpointError, match=r"hf://any/one cannot be fetched: .*go online, or open a folder"):
            Predictor.from_pretrained("any/one", local_files_only=True)
        assert server.asked == []
        Predictor.from_pretrained("any/one")
        count = len(server.asked)
        assert same(Predictor.from_pretrained("any/one", local_files_only=True), small())
        Predictor.from_pretrained("any/two", cache_dir=tmp_path / "other")
        assert len(server.asked) > count
        assert (tmp_path / "other" / "models--any--two").is_dir()
        assert not (cache / "models--any--two").exists()
        before = len([path for path in server.asked if path.startswith("GET /any/one/resolve")])
        Predictor.from_pretrained("any/one")
        assert len([path for path in server.asked if path.startswith("GET /any/one/resolve")]) == before  # by its ETag
        Predictor.from_pretrained("any/one", force_download=True)
        assert len([path for path in server.asked if path.startswith("GET /any/one/resolve")]) > before
        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
        assert same(horst.open_model("hf://any/one"), small())
        with pytest.raises(CheckpointError, match=r"hf://any/three cannot be fetched: .*the Hub cannot be reached"):
            horst.open_model("hf://any/three")


def test_a_server_that_is_down_leaves_the_cache(tmp_path: Path) -> None:
    """In a process of its own, with the variables of huggingface_hub."""
    with hub({"any/one": small().save_pretrained(tmp_path / "model")}, tmp_path / "cache") as server:
        horst.open_model("hf://any/one")
    code = "import horst; print(horst.open_model('hf://any/one').labels['action'])"
    variables = {"HF_ENDPOINT": server.url, "HF_HUB_CACHE": str(tmp_path / "cache")}
    environment = {**os.environ, **variables}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.stdout == "['up', 'down']\n", done.stderr


def test_errors_name_the_repository_and_a_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for address in ("hf://", "hf://name", "hf://a/b/c", "hf://a/b@", "hf://a b/c"):
        with pytest.raises(CheckpointError, match="write hf://user/name"):
            horst.open_model(address)
    folder = small().save_pretrained(tmp_path / "model")
    with hub({f"{USER}/mine": folder, "other/theirs": folder}, tmp_path / "cache", token=None) as server:
        server.repositories[f"{USER}/mine"].private = True
        with pytest.raises(CheckpointError, match=r"hf://any/none cannot be fetched: .*; check the name, or log in"):
            Predictor.from_pretrained("any/none")
        with pytest.raises(CheckpointError, match=r"hf://some-one/mine cannot be fetched: .*if it is private"):
            Predictor.from_pretrained(f"{USER}/mine")
        assert same(Predictor.from_pretrained(f"{USER}/mine", token=TOKEN), small())
        with pytest.raises(CheckpointError, match=r"hf://other/theirs@v9 cannot be fetched: .*; check its branches"):
            horst.open_model("hf://other/theirs@v9")
        with pytest.raises(CheckpointError, match=r"other/theirs cannot be uploaded: .*`hf auth login` and a token"):
            small().push_to_hub("other/theirs")
        with pytest.raises(CheckpointError, match=r"other/theirs cannot be uploaded: .*`hf auth login` and a token"):
            small().push_to_hub("other/theirs", token=TOKEN)
    with pytest.raises(CheckpointError, match="write user/name"):
        small().push_to_hub("a/b/c")
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    for use in (lambda: horst.open_model("hf://a/b"), lambda: small().push_to_hub("a/b")):
        with pytest.raises(MissingExtraError, match=r"pip install 'horst-video\[hub\]'"):
            use()


def test_a_model_is_uploaded_and_opened_again(tmp_path: Path) -> None:
    model = small()
    with hub({}, tmp_path / "cache") as server:
        url = model.push_to_hub("new", commit_message="First version", private=True)  # of the token's user
        repository = server.repositories[f"{USER}/new"]
        assert url == f"{server.url}/{USER}/new/commit/{repository.names['main']}"
        assert repository.private
        assert repository.messages == ["initial commit", "First version"]
        files = repository.files()
        assert set(files) == {".gitattributes", "config.json", "model.safetensors", "labels.json", "README.md"}
        assert list(server.objects.values()) == [files["model.safetensors"]]  # by LFS
        assert b"\n# new\n" in files["README.md"]
        assert same(Predictor.from_pretrained(f"{USER}/new"), model)

        with torch.no_grad():
            next(model.parameters()).add_(1.0)
        model.push_to_hub(f"{USER}/new", branch="next", ignore_patterns="labels.json", delete_patterns="labels.json")
        assert set(repository.files("next")) == set(files) - {"labels.json"}
        assert repository.files() == files
        assert same(Predictor.from_pretrained(f"{USER}/new", revision="next"), model)
        saved = model.save_pretrained(tmp_path / "third", push_to_hub=True, commit_message="From a folder")
        assert saved.startswith(f"{server.url}/{USER}/third/commit/")
        assert server.repositories[f"{USER}/third"].messages[-1] == "From a folder"
        assert same(horst.open_model(tmp_path / "third"), model)


def test_a_card_of_ones_own_on_the_hub_is_kept(tmp_path: Path) -> None:
    with hub({}, tmp_path / "cache") as server:
        small().push_to_hub(f"{USER}/new")
        repository = server.repositories[f"{USER}/new"]
        small().push_to_hub(f"{USER}/new", model_card_kwargs={"license": "mit"})
        assert b"license: mit" in repository.files()["README.md"]
        repository.commit("main", {**repository.files(), "README.md": b"# Mine\n"}, "edited on the page")
        small().push_to_hub(f"{USER}/new")
        assert repository.files()["README.md"] == b"# Mine\n"


def test_cards_have_the_metadata_of_the_hub(tmp_path: Path) -> None:
    """Read by huggingface_hub's own reader of cards."""
    about = {"license": "cc-by-4.0", "datasets": ["any/clips"], "tags": ["gestures"]}
    folder = small().save_pretrained(tmp_path / "model", model_card_kwargs=about)
    card = ModelCard.load(folder / "README.md")
    assert (card.data.library_name, card.data.pipeline_tag) == ("horst", "video-classification")
    assert (card.data.license, card.data.datasets, card.data.labels) == ("cc-by-4.0", ["any/clips"], ["up", "down"])
    assert card.data.tags == ["video-classification", "early-action-recognition", "gestures"]
    assert card.data.eval_results is None
    assert "frames of 112x112, 12 frames per second; 2 classes of action" in card.text
    assert "\n# model\n" in card.text
    plain = ModelCard.load(small().save_pretrained(tmp_path / "best", name="mine") / "README.md")
    assert "\n# mine\n" in plain.text
    assert plain.data.license is None  # weights are not the package's to license
    shipped = horst.open_model("somethings").save_pretrained(tmp_path / "shipped")
    assert ModelCard.load(shipped / "README.md").data.license == "apache-2.0"


def test_cards_have_the_results_of_their_weights_only(tmp_path: Path) -> None:
    folder = small().save_pretrained(tmp_path / "model", model_card_kwargs={"license": "mit"})
    model = horst.open_model(folder)
    metrics = {"area": 0.61237, "action/top1@10%": 0.2, "action/top1@25%": 0.5, "action/top1@100%": 0.75}
    add_results(folder, model, result(**metrics))
    add_results(folder, model, {**result(area=0.5), "dataset": {"type": "b", "name": "B", "split": "val"}})
    add_results(folder, model, result(**metrics))  # again: it replaces the first

    def read(folder: Path) -> dict[tuple[str, str], float]:
        card = ModelCard.load(folder / "README.md")
        assert card.data.license == "mit"
        return {(one.dataset_name, one.metric_name): one.metric_value for one in card.data.eval_results or []}

    expected = {("B", "area under top-1"): 0.5, ("My Clips", "area under top-1"): 0.6124}
    expected |= {("My Clips", "top-1 after 25% of the clip"): 0.5, ("My Clips", "top-1 after 100% of the clip"): 0.75}
    assert read(folder) == expected
    assert ModelCard.load(folder / "README.md").data.metrics == ["accuracy"]
    again = horst.open_model(folder)
    assert read(again.save_pretrained(tmp_path / "copy", name="copy")) == expected
    assert ModelCard.load(tmp_path / "copy" / "README.md").data.model_name == "copy"
    with torch.no_grad():
        next(again.parameters()).add_(1.0)
    assert read(again.save_pretrained(tmp_path / "changed")) == {}
    add_results(folder, again, result(area=0.9))  # was not measured with the weights of the folder
    assert read(folder) == expected
    model.reset_classifier(["a", "b", "c"])
    assert ModelCard.load(model.save_pretrained(tmp_path / "other") / "README.md").data.license is None


@pytest.mark.parametrize("task", get_args(Task))
def test_every_task_has_results(task: Any) -> None:
    """Each has a name, and the metric by which its models are compared is among the results."""
    name = primary_metric(task)
    protocol = {"fractions": [0.5, 1.0], "taus": [2.0, 1.0, 0.0]}
    found = card_result(
        Evaluation(data="any", split="val", task=task, counts={}, protocol=protocol, metrics={name: 0.25})
    )
    assert found is not None
    assert [metric["value"] for metric in found["metrics"]] == [0.25]
    assert card_result(
        Evaluation(data="any", split="val", task=task, counts={}, protocol=protocol, metrics={})
    ) is None  # fmt: skip


def test_cards_of_users_are_kept_and_damaged_ones_ignored(tmp_path: Path) -> None:
    folder = small().save_pretrained(tmp_path / "model")
    other = create_model("horst_tiny", num_classes=3, size=(32, 48), hidden=(4,), stride=(1,))
    assert "32x48" in (other.save_pretrained(folder, overwrite=True) / "README.md").read_text()
    for text in ("# Mine\n", "---\nlicense: mit\n---\n# Mine\n", "---\n[: \n---\n", "---\n- a\n---\n", "---\n" * 3):
        (folder / "README.md").write_text(text)
        assert horst.open_model(folder).card_data == ({"license": "mit"} if "mit" in text else {})
        add_results(folder, small(), result(area=0.5))
        small().save_pretrained(folder, overwrite=True)
        assert (folder / "README.md").read_text() == text
    (folder / "README.md").write_bytes(b"\xff\xfe")
    assert horst.open_model(folder).card_data == {}


def test_hostile_names_stay_data_in_the_card(tmp_path: Path) -> None:
    rude = ["up\n---\nlicense: stolen", "!!python/object/apply:os.system [ls]"]
    model = create_model("horst_tiny", num_classes=2, labels={"action": rude}, hidden=(4,), stride=(1,))
    text = (model.save_pretrained(tmp_path / "model", name="a\n---\nb") / "README.md").read_text()
    front = text.split("\n---\n")[0].removeprefix("---\n")
    assert yaml.safe_load(front)["labels"] == rude
    assert ModelCard.load(tmp_path / "model" / "README.md").data.license is None


def test_an_empty_folder_is_taken_and_others_are_not(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert same(horst.open_model(small().save_pretrained(tmp_path / "empty")), small())
    with pytest.raises(ExistsError, match="overwrite=True"):
        small().save_pretrained(tmp_path / "empty")
    with pytest.raises(TypeError, match="private"):
        small().save_pretrained(tmp_path / "new", private=True)


def test_torch_hub_loads_from_the_repository(tmp_path: Path) -> None:
    """In a process without the package on its path."""
    root = Path(__file__).parents[2]
    code = f"""
import sys, torch
sys.path = [path for path in sys.path if not path.endswith("src")]
model = torch.hub.load({str(root)!r}, "horst", source="local")
print(model.labels["action"][0], model.training)
print(torch.hub.load({str(root)!r}, "horst", "horst_tiny", source="local", pretrained=False, num_classes=3).num_classes)
print(sys.modules["horst"].__file__)
import hubconf
print([name for name in dir(hubconf) if callable(getattr(hubconf, name)) and name[0] != "_"])
"""
    environment = {**os.environ, "PYTHONPATH": str(root)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    first = horst.open_model("somethings").labels
    assert first is not None
    where = str(root / "src" / "horst" / "__init__.py")
    assert done.stdout.splitlines() == [f"{first['action'][0]} False", "3", where, "['horst']"]
