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
        made = {example.id: example for example in source.annotations.examples}
        fresh = tuple(replace(example, split="val") for example in made.values())
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
    return tuple(
        Example(
            id=f"trained {spec.id}_{number}",
            split="train",
            media=Path(f"{spec.id}.mp4"),
            labels={
                "action": kitchen.action_id(segment.verb, segment.noun),
                "verb": kitchen.VERBS.index(segment.verb),
                "noun": kitchen.NOUNS.index(segment.noun),
            },
        )
        for spec in kitchen.plan(*KITCHEN)
        if spec.split == "train"
        for number, segment in enumerate(spec.segments)
    )


def _tails(annotations: Annotations) -> dict[str, frozenset[str]]:
    """Fresh actions whose verb or noun is rare in training; made data call rare what is so in their own few videos."""
    train = [example for example in annotations.examples if example.split == "train"]
    val = [example for example in annotations.examples if example.split == "val"]
    sets: dict[str, frozenset[str]] = {}
    for part in ("verb", "noun"):
        if f"tail {part}" in annotations.example_sets:
            seen = Counter(example.labels[part] for example in train)
            sets[f"tail {part}"] = frozenset(e.id for e in val if seen[e.labels[part]] < TAIL_SHARE * seen.total())
    return sets | ({"tail action": sets["tail verb"] | sets["tail noun"]} if len(sets) == 2 else {})
