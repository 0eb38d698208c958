"""Late fusion of runs: modalities, methods or seeds as one result, and as one model where they read the same frames.

    fusion = fuse_runs(["runs/a", "runs/b"])
    fusion.evaluation.metrics["area"]
    fusion.save("runs/fused")

Weights are learned on examples that no run was trained on and that are not reported: on the validation split if another
split is reported, else by recipe on the other folds (`held_out`). Scores of training clips are no substitute: they are
overconfident, most of all those of the run that overfits most.
"""

import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import horst
from horst.config import differences
from horst.data.identity import DataIdentity
from horst.data.segments import evaluated
from horst.data.source import open_source
from horst.errors import ConfigError, DataError
from horst.evaluation.evaluate import Evaluation, evaluate_predictions, fingerprint
from horst.evaluation.fusion import align, difference, fuse_predictions, learn_weights
from horst.evaluation.measure import primary_metric
from horst.evaluation.predictions import Predictions, pool
from horst.io import write_text
from horst.models import Predictor, fuse_models, save
from horst.models.fused import input_difference
from horst.places import FUSION, RUN, check_new, current_place
from horst.remote import CHECKPOINT
from horst.training.config import RunConfig
from horst.training.evaluated import PREDICTIONS
from horst.training.run import Run, writable

Weights = Literal["auto", "equal", "learned"]
FORMAT = 1
MODELS = "models"  # the folder of the members' models, where these cannot be one


@dataclass(frozen=True, slots=True, eq=False)
class FusionMember:
    """A run that is fused, with its evaluation."""

    run: Run
    config: RunConfig
    evaluation: Evaluation
    predictions: Predictions
    model: Predictor


@dataclass(frozen=True, slots=True, eq=False)
class Fusion:
    """Fused runs."""

    members: list[FusionMember]
    weights: list[float]
    how: str  # where the weights come from
    predictions: Predictions
    evaluation: Evaluation
    model: Predictor | None  # None if the runs read other inputs
    why_not: str  # then the reason

    @property
    def metric(self) -> str:
        """The metric by which models of the task are compared."""
        return primary_metric(self.evaluation.task, self.members[0].config.data.clip, self.evaluation.data)

    def to_dict(self) -> dict[str, Any]:
        metric = self.metric
        runs = [
            {
                "run": member.run.place,
                "weight": weight,
                "fingerprint": member.evaluation.weights,
                metric: member.evaluation.metrics.get(metric),
            }
            for member, weight in zip(self.members, self.weights, strict=True)
        ]
        about = {"format": FORMAT, "horst": horst.__version__, "split": self.evaluation.split, "how": self.how}
        data = self.members[0].config.to_dict()["data"]  # what the examples of all runs were read from here
        return {**about, "runs": runs, "data": data, "not_served": self.why_not or None}

    def save(self, folder: str | Path) -> None:
        """Write a new folder, atomically: a saved model, fusion.json, and the files of an evaluation."""
        check_new(folder)
        place, title = Run(folder), Path(folder).name
        folder = place.folder
        new = folder.with_name(f".{folder.name}.new")
        with writable(folder):
            folder.parent.mkdir(parents=True, exist_ok=True)
            shutil.rmtree(new, ignore_errors=True)  # left by a killed process
        try:
            with writable(folder):
                if self.model is not None:
                    save(self.model, new, name=title)
                for i, member in enumerate(self.members if self.model is None else ()):
                    best = current_place(member.run.best)
                    shutil.copytree(best, new / MODELS / f"{i}-{Path(member.run.place).name}")
                write_text(new / FUSION, json.dumps(self.to_dict(), indent=1, ensure_ascii=False) + "\n")
                written, split = Run(new), self.evaluation.split
                self.evaluation.save(written.evaluation(split))
                self.predictions.save(written.evaluation(split, PREDICTIONS))
                os.replace(new, folder)
            place.publish()
        finally:
            shutil.rmtree(new, ignore_errors=True)


def fuse_runs(folders: Sequence[str | Path], *, split: str = "val", weights: Weights = "auto") -> Fusion:
    """Fuse the evaluations of runs on `split`. The runs are in an order of their own: that of `folders` has no effect.

    `weights`: "learned" is an error if there is nothing to learn them from; "auto" gives equal ones then.
    """
    if not folders:
        raise ConfigError("there is no run to fuse: name two run folders or more")
    members = [read_member(folder, split) for folder in folders]
    for member in members[1:]:
        check_same(members[0], member)
    members.sort(key=lambda member: (member.run.place, member.evaluation.weights))
    first, annotations = members[0], open_source(members[0].config.data).annotations
    known, frames = annotations.split(split), annotations.task == "detection"
    ids = [example.id for example in (known if frames else evaluated(known)).examples]
    if set(ids) != set(first.predictions.groups if frames else first.predictions.ids):
        other = f"the data of {first.run.place} have other examples in {split} than its evaluation"
        raise DataError(f"{other}: run `horst evaluate` for all runs again")
    chosen, how = choose_weights(members, split, weights)
    why_not = other_inputs(members)
    model = None if why_not else fuse_models([member.model for member in members], chosen)
    fused = fuse_predictions([member.predictions for member in members], chosen)
    fused = fused if frames else align(fused, ids)
    clip = first.config.data.clip_for(size=first.model.size, fps=first.model.fps)
    if fused.task == "anticipation":
        clip = replace(clip, mode=first.evaluation.protocol["mode"])
    seconds = sum(member.evaluation.seconds for member in members)
    evaluation = evaluate_predictions(fused, annotations, split, clip, model=model, seconds=round(seconds, 3))
    return Fusion(members, chosen, how, fused, evaluation, model, why_not)


def read_member(folder: str | Path, split: str) -> FusionMember:
    """A run with its evaluation. DataError or ConfigError if it has none, or that of other weights."""
    run = Run(folder, skip=(CHECKPOINT,))
    if not run.config.is_file():
        raise ConfigError(f"{folder} is no run: it has no {run.config.name}")
    config = RunConfig.from_file(run.config, run_imports=False)
    again = f"run `horst evaluate {folder}{'' if split == 'val' else f' --split {split}'}`"
    for file in (run.evaluation(split), run.evaluation(split, PREDICTIONS)):
        if not file.is_file():
            raise DataError(f"{folder} has no {file.name}, the evaluation on {split}: {again}")
    evaluation = Evaluation.load(run.evaluation(split))
    predictions = Predictions.load(run.evaluation(split, PREDICTIONS))
    model = horst.open_model(folder)
    if evaluation.weights != fingerprint(model):
        raise DataError(f"{folder} has an evaluation of another model than its best one: {again}")
    return FusionMember(run, config, evaluation, predictions, model)


def check_same(first: FusionMember, other: FusionMember) -> None:
    """DataError that names the run and the difference, if two runs are not of the same data and classes."""
    why = difference(first.predictions, other.predictions)
    labels = [
        {task: list(member.model.labels[task]) for task in member.model.labels} if member.model.labels else {}
        for member in (first, other)
    ]
    modes = [member.evaluation.protocol.get("mode") for member in (first, other)]
    if not why and labels[0] != labels[1]:
        task = next(task for task in {**labels[0], **labels[1]} if labels[0].get(task) != labels[1].get(task))
        names = [member.get(task, []) for member in labels]
        pair = next(((b, a) for a, b in zip(*names, strict=False) if a != b), (len(names[1]), len(names[0])))
        why = f"has other classes of {task}: {pair[0]!r} where the first has {pair[1]!r}"
    if not why and modes[0] != modes[1]:
        why = f"was evaluated in mode {modes[1]}, not {modes[0]}"
    if not why and (changes := trained_differently(first.run.folder, other.run.folder)):
        why = f"was trained on other examples: {'; '.join(changes)}"
    if why:
        raise DataError(f"{other.run.place} cannot be fused with {first.run.place}: it {why}")


def trained_differently(first: Path, other: Path) -> list[str]:
    """How the examples of two runs differ: ids, splits, labels and classes, not files, which modalities have apart."""
    found = []
    for folder in (first, other):
        if (identity := DataIdentity.read(folder)) is None:
            return []
        found.append(replace(identity, media={}, examples=[[*example[:3], "", ""] for example in identity.examples]))
    return found[0].differences(found[1])


def other_inputs(members: Sequence[FusionMember]) -> str:
    """Why the models of runs cannot be one; empty if they can."""
    for member in members:
        if member.model.backbone.window > 1:
            name = type(member.model.backbone).__name__
            return f"{member.run.place} has the backbone {name}, which reads a window of frames; fused models do not"
    for member in members[1:]:
        pair = f"{members[0].run.place} and {member.run.place}"
        if why := input_difference([members[0].model, member.model]):
            return f"{pair} differ in {why}"
        if member.model.backbone.precomputed:
            there, here = ({**one.config.data.to_dict(), "fold": None} for one in (members[0], member))
            if changes := differences(there, here):
                return f"{pair} read other features: {'; '.join(changes)}"
    return ""


def choose_weights(members: Sequence[FusionMember], split: str, wanted: Weights) -> tuple[list[float], str]:
    """The weight of each run, and where they come from."""
    equal = [1 / len(members)] * len(members)
    if len(members) == 1:
        return equal, "one run"
    if wanted == "equal":
        return equal, "equal, as requested"
    recipes = [json.dumps(_recipe(member.config, seed=None), sort_keys=True) for member in members]
    if split == "val" and len(set(recipes)) == 1:
        about = "the runs differ in their seed alone, and a seed has no value beyond its own training"
        found: list[Predictions] = []
    else:
        found, about = held_out(members, split)
    if found:
        return learn_by_recipe(found, recipes) if split == "val" else learn_weights(found), f"learned on {about}"
    if wanted == "learned":
        raise ConfigError(f"weights cannot be learned: {about}")
    return equal, f"equal: {about}"


def learn_by_recipe(found: Sequence[Predictions], recipes: Sequence[str]) -> list[float]:
    """The weights of runs by the predictions of their other folds: those with the same recipe have the same weight.

    Runs of one seed on two folds have the recipe in common and nothing else, so a weight of their own would be noise.
    """
    groups = {recipe: [one for one, own in zip(found, recipes, strict=True) if own == recipe] for recipe in recipes}
    means = [fuse_predictions(several, [1 / len(several)] * len(several)) for several in groups.values()]
    weights = dict(zip(groups, learn_weights(means), strict=True))
    return [weights[recipe] / len(groups[recipe]) for recipe in recipes]


def held_out(members: Sequence[FusionMember], split: str) -> tuple[list[Predictions], str]:
    """Predictions of each run for examples that it was not trained on and that are not in `split`, and their origin.

    An empty list, and the reason, if there are no such examples.
    """
    if split != "val":
        sources = [[one.run] for one in members if one.run.evaluation("val", PREDICTIONS).is_file()]
        about, absent = "the validation split", "all of them need an evaluation on val"
    elif any(member.config.data.fold is None for member in members):
        return [], (
            "the runs were trained on all examples that are not reported. To learn weights, train with data.fold, all "
            "folds of a recipe in folders side by side, or report another split than val"
        )
    else:
        siblings = [other_folds(member) for member in members]
        common = sorted(set.intersection(*(set(folds) for folds in siblings)))
        sources = [[folds[index] for index in common] for folds in siblings if common]
        about = f"the examples of fold {', '.join(map(str, common))}"
        absent = "the runs have no other fold in common that is evaluated, in folders beside them"
    if len(sources) < len(members):
        return [], absent
    found = [pool([Predictions.load(one.evaluation("val", PREDICTIONS)) for one in each]) for each in sources]
    reported = set(members[0].predictions.ids)
    found = [align(one, [ident for ident in one.ids if ident not in reported]) for one in found]
    for member, other in zip(members[1:], found[1:], strict=True):
        if why := difference(found[0], other):
            raise DataError(f"weights cannot be learned on {about}: there, {member.run.place} {why}; use equal weights")
    return [align(one, found[0].ids) for one in found], f"{about}, {len(found[0])} examples"


def other_folds(member: FusionMember) -> dict[int, Run]:
    """The runs in folders beside a run, of the same recipe, seed and data, on other folds and evaluated; by fold.

    None for a run at an address: the runs beside it would have to be copied first.
    """
    found: dict[int, Run] = {}
    beside = [] if member.run.remote else sorted(member.run.folder.resolve().parent.glob(f"*/{RUN}"))
    for config in beside:
        run = Run(config.parent)
        if not run.evaluation("val", PREDICTIONS).is_file():
            continue
        other = RunConfig.from_file(config, run_imports=False)
        fold = other.data.fold
        if fold is not None and other.data.fold != member.config.data.fold and _recipe(other) == _recipe(member.config):
            found.setdefault(fold.index, run)
    return found


def _recipe(config: RunConfig, **others: Any) -> dict[str, Any]:
    """All but the name and the number of the fold. `others`: further entries that do not count."""
    data = config.to_dict()
    fold = {**data["data"].get("fold", {}), "index": None}
    return {**data, "name": None, "data": {**data["data"], "fold": fold}, **others}
