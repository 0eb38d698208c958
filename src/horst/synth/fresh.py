"""Clips drawn just now, which no model has seen: all of them are for validation, whatever split they were made for.

    evaluation = evaluate(model, fresh_somethings("fresh", clips=96, seed=1000))

The package's models were trained with seed 0.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from horst.data.clips import Clip, ClipConfig
from horst.data.config import DataConfig
from horst.data.example import Annotations, Example
from horst.data.loader import ClipBatches
from horst.data.source import open_source
from horst.synth import kitchen
from horst.synth.make import TAIL_SHARE, make_kitchen, make_somethings

KITCHEN = 400, 0  # videos and seed from which the package's kitchen model learnt: kitchen/gpu


class Fresh(ClipBatches):
    """Made clips, beside the labels of those that a model was trained on, which give the prior and the tail classes."""

    def __init__(self, data: DataConfig, trained: Sequence[Example] = ()) -> None:
        source = open_source(data)
        fresh = (replace(example, split="val") for example in source.annotations.examples)
        annotations = replace(source.annotations, examples=(*trained, *fresh))
        annotations = replace(annotations, example_sets={**annotations.example_sets, **_tails(annotations)})
        super().__init__(data, source=source.with_annotations(annotations))

    def clip(self, example: Example, config: ClipConfig) -> Clip:
        return self.source.read(example, config)


def fresh_somethings(folder: str | Path, clips: int, seed: int) -> Fresh:
    """Clips of early recognition, as files."""
    return Fresh(DataConfig.from_file(make_somethings(folder, clips, seed=seed)))


def fresh_kitchen(folder: str | Path, videos: int, seed: int, size: tuple[int, int]) -> Fresh:
    """Videos of anticipation: what comes before each of their actions, packed."""
    data = DataConfig.from_file(make_kitchen(folder, videos, seed=seed, size=size, packed=True))
    return Fresh(replace(data, clip=replace(data.clip, mode="strict")), _kitchen_trained())


def _kitchen_trained() -> tuple[Example, ...]:
    """The training actions of the package's model. They are planned again, in two seconds, and not drawn."""
    trained = []
    for row in kitchen.epic_rows(kitchen.plan(*KITCHEN), "train"):
        action = kitchen.action_id(str(row["verb"]), str(row["noun"]))
        labels = {"action": action, "verb": int(row["verb_class"]), "noun": int(row["noun_class"])}
        media = Path(f"{row['video_id']}.mp4")
        trained.append(Example(id=f"trained {row['narration_id']}", split="train", media=media, labels=labels))
    return tuple(trained)


def _tails(annotations: Annotations) -> dict[str, frozenset[str]]:
    """Fresh actions whose verb or noun is rare in training; made data call rare what is so in their own few videos."""
    train, val = ([example for example in annotations.examples if example.split == name] for name in ("train", "val"))
    sets: dict[str, frozenset[str]] = {}
    for part in ("verb", "noun"):
        if f"tail {part}" in annotations.example_sets:
            seen = Counter(example.labels[part] for example in train)
            sets[f"tail {part}"] = frozenset(e.id for e in val if seen[e.labels[part]] < TAIL_SHARE * seen.total())
    return sets | ({"tail action": sets["tail verb"] | sets["tail noun"]} if len(sets) == 2 else {})
