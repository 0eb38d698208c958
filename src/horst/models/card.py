"""Model cards: the README.md of a saved model. The metadata at its top is what the Hugging Face Hub reads.

    license, datasets, ...     given by the user; kept when the model is opened and saved again
    library_name, pipeline_tag, tags, labels
    metrics, model-index       results of `horst evaluate`, for exactly these weights (weights_crc32)

A card that horst wrote has a comment that says so and is replaced; a card without it belongs to the user and is kept.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from horst.console import visible
from horst.heads import HEADS
from horst.models.predictor import Labels, PredictorConfig

CARD = "README.md"
MARK = "<!-- horst wrote this card and replaces it when the model is saved again; delete this line to keep yours. -->"
OLD_MARK = "<!-- horst.save wrote this card"
WEIGHTS_KEY = "weights_crc32"  # the checksum of the weights that the results are for
RESULTS = ("metrics", "model-index", WEIGHTS_KEY)
MOST_LABELS = 1000  # a card lists no more; labels.json has them all
LARGEST = 2**20  # characters of metadata that are read


def is_own_card(text: str) -> bool:
    """Whether a user wrote or edited the card."""
    return MARK not in text and OLD_MARK not in text


def read_card(folder: Path) -> str | None:
    """The text of a folder's card; None if there is none that can be read."""
    try:
        return (folder / CARD).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None


def card_metadata(text: str | None) -> dict[str, Any]:
    """The metadata of a card. A damaged one has none: a model is not refused for its card."""
    parts = (text or "").split("---\n", 2)
    if len(parts) < 3 or parts[0].strip("\ufeff\n ") or len(parts[1]) > LARGEST:
        return {}
    try:
        data = yaml.safe_load(parts[1])
    except (yaml.YAMLError, ValueError, RecursionError):
        return {}
    return {key: value for key, value in data.items() if isinstance(key, str)} if isinstance(data, dict) else {}


def write_card(
    name: str,
    config: PredictorConfig,
    labels: Labels | None,
    *,
    weights: str,
    metadata: Mapping[str, Any],
    text: str | None = None,
) -> str:
    """A card for a model.

    Args:
        name: Its title.
        config: What the text describes.
        labels: Names of the classes.
        weights: Checksum of the weights. Results in `metadata` that are for others are left out.
        metadata: Further entries, such as a license.
        text: Instead of the usual text; such a card is kept as a user's own.
    """
    task = "early action recognition" if HEADS[config.head.name].task == "recognition" else "action anticipation"
    found = dict(metadata)
    if found.get(WEIGHTS_KEY) != weights:
        found = {key: value for key, value in found.items() if key not in RESULTS}
    tags = found.pop("tags", None)
    own_tags = [str(tag) for tag in tags] if isinstance(tags, list | tuple) else []
    actions = (labels or {}).get("action", [])
    about: dict[str, Any] = {
        "library_name": "horst",
        "pipeline_tag": "video-classification",
        "tags": list(dict.fromkeys(["video-classification", task.replace(" ", "-"), *own_tags])),
    }
    if 0 < len(actions) <= MOST_LABELS:
        about["labels"] = list(actions)
    results = {key: found.pop(key) for key in RESULTS if key in found}
    given = {key: value for key, value in found.items() if key not in about and key != "labels"}
    title = visible(name, lines=False)
    for entry in results.get("model-index") or ():
        if isinstance(entry, dict):
            entry["name"] = title
    front = yaml.safe_dump({**given, **about, **results}, sort_keys=False, allow_unicode=True, width=120)
    return f"---\n{front}---\n{_usual_text(title, task, config, labels) if text is None else text}"


def _usual_text(title: str, task: str, config: PredictorConfig, labels: Labels | None) -> str:
    height, width = config.size
    classes = "".join(f"; {len(names)} classes of {kind}" for kind, names in (labels or {}).items())
    return f"""{MARK}

# {title}

For {task}: {config.core.about}; frames of {height}x{width}, {config.fps:g} frames per second{classes}.

```python
import horst

model = horst.open_model("this folder, or hf://user/name")
```
"""


def with_results(metadata: Mapping[str, Any], result: Mapping[str, Any], weights: str) -> dict[str, Any]:
    """`metadata` with one more result of the model-index. It replaces that of the same data set and split.

    `weights`: the checksum of those that were evaluated. Results of others are dropped.
    """
    same = metadata.get(WEIGHTS_KEY) == weights
    index = metadata.get("model-index") if same else None
    before = index[0].get("results", []) if isinstance(index, list) and index and isinstance(index[0], dict) else []
    kept = [one for one in before if isinstance(one, dict) and one.get("dataset") != result["dataset"]]
    results = [*kept, dict(result)]
    types = {metric["type"]: None for one in results for metric in one.get("metrics", [])}
    return {
        **metadata,
        "metrics": list(types),
        "model-index": [{"name": "", "results": results}],
        WEIGHTS_KEY: weights,
    }
