"""The synthetic samples of the package's models: which clips, and how they are rendered."""

from dataclasses import dataclass
from itertools import islice
from pathlib import Path

SIZE = 224
CLIPS: tuple[tuple[int, str, tuple[str, ...], float], ...] = (
    (978777605385223804, "Lifting [something] up and putting it back", ("red duck",), 2.5),
    (4548003753737736511, "Covering [something] with [something]", ("blue ball", "teal hat"), 3.25),
    (3470332971461700398, "Putting [something] on [something]", ("orange", "blue bucket"), 2.42),
    (875680040195307238, "Pushing [something] from left to right", ("green bowl",), 2.92),
    (2456690045511865467, "Swapping [something] and [something]", ("yellow apple", "pink bucket"), 3.0),
    (3562899592724689024, "Dropping [something]", ("green ball",), 3.17),
)
"""Seed, template, objects and seconds, chosen from `somethings.plan(240, 1000)`. The package's model was trained on
seed 0, so they are new to it. Nothing hides the action, and the model predicts it correctly."""
KITCHEN_SIZE = (192, 336)
KITCHEN_SEED = 1000
KITCHENS: tuple[tuple[int, float, float, str], ...] = (
    (3, 12.7, 22.7, "Washing a tomato"),
    (15, 20.6, 31.0, "Filling the kettle"),
    (27, 17.5, 30.4, "Stirring pasta"),
    (23, 30.7, 40.9, "Making tea"),
)
"""Parts of the videos of `kitchen.plan(..., KITCHEN_SEED)`: index, first and last second, and a title. The package's
model was trained on seed 0. It predicts most of these actions one second ahead, which it does not in most videos."""


@dataclass(frozen=True, slots=True)
class NextAction:
    seconds: float  # when it starts
    action: str


@dataclass(frozen=True, slots=True)
class SampleClip:
    name: str
    label: str  # in words: the action with the names of its objects, or what happens
    action: str | None  # the class that the clip shows; None if it shows several actions
    next: list[NextAction]  # for anticipation: the actions that start in the clip
    seconds: float


def something_clips() -> list[SampleClip]:
    """For early recognition: sample-1, ..."""
    return [
        SampleClip(f"sample-{i}", _fill(template, objects), template.replace("[something]", "something"), [], seconds)
        for i, (_, template, objects, seconds) in enumerate(CLIPS, 1)
    ]


def kitchen_clips() -> list[SampleClip]:
    """For anticipation: kitchen-1, ..."""
    from horst.synth import kitchen

    specs = kitchen.plan(1 + max(index for index, *_ in KITCHENS), KITCHEN_SEED)
    clips = []
    for number, (index, start, end, title) in enumerate(KITCHENS, 1):
        within = [segment for segment in specs[index].segments if start < segment.start < end]
        actions = [NextAction(round(segment.start - start, 2), segment.narration) for segment in within]
        clips.append(SampleClip(f"kitchen-{number}", title, None, actions, round(end - start, 2)))
    return clips


def render_sample(name: str, folder: Path) -> Path | None:
    """The mp4 file of a clip in `folder`, rendered if it is missing; None if there is no clip of this name."""
    from horst.synth import kitchen, somethings
    from horst.video.encode import write_video

    kind, _, number = name.partition("-")
    count = {"sample": len(CLIPS), "kitchen": len(KITCHENS)}.get(kind, 0)
    if number not in map(str, range(1, count + 1)):
        return None
    index = int(number) - 1
    # not by name, which another version may use for another clip
    place = f"{CLIPS[index][0]}" if kind == "sample" else "kitchen-{}-{}-{}".format(*KITCHENS[index])
    path = folder / f"{place}.mp4"
    if path.exists():
        return path
    if kind == "sample":
        seed, template, objects, _ = CLIPS[index]
        clip = somethings.ClipSpec(path.stem, "val", template, objects, _fill(template, objects), seed)
        write_video(path, somethings.render(clip, size=SIZE), somethings.FPS)
    else:
        video, start, end, _ = KITCHENS[index]
        frames = kitchen.render(kitchen.plan(video + 1, KITCHEN_SEED)[video], size=KITCHEN_SIZE)
        write_video(path, islice(frames, round(start * kitchen.FPS), round(end * kitchen.FPS)), kitchen.FPS)
    return path


def _fill(template: str, objects: tuple[str, ...]) -> str:
    return template.replace("[something]", "{}").format(*objects)
