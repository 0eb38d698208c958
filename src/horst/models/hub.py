"""Models on the Hugging Face Hub: a saved folder is a repository as it is, with a README as its card.

model = horst.load("hf://user/name")          # or hf://user/name@revision
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from horst.console import visible
from horst.errors import CheckpointError, MissingExtraError

SCHEME = "hf://"
CARD = "README.md"
WRITTEN = "<!-- horst.save wrote this card and writes it anew; without this line it is yours and is kept. -->"


def download(address: str, files: list[str]) -> Path:
    """The folder of a repository, of which only `files` are fetched; kept where huggingface_hub keeps things."""
    found = re.fullmatch(r"hf://(?P<name>[\w.-]+/[\w.-]+?)(?:@(?P<revision>[\w./-]+))?/?", address)
    if found is None:
        raise CheckpointError(f"{address} is no address of a model: it is written hf://user/name or hf://user/name@v1")
    try:
        import huggingface_hub
    except ImportError as error:
        raise MissingExtraError(f"{address} needs huggingface_hub: pip install 'horst-video[hub]'") from error
    try:
        folder = huggingface_hub.snapshot_download(found["name"], revision=found["revision"], allow_patterns=files)
    except Exception as error:  # of several network libraries, which have no class in common
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise CheckpointError(f"{address} cannot be fetched: {reason}{_remedy(error)}") from error
    return Path(folder)


def _remedy(error: Exception) -> str:
    """By the names of classes, as versions of huggingface_hub have them in different places."""
    kinds = {kind.__name__ for kind in type(error).__mro__}
    if kinds & {"LocalEntryNotFoundError", "OfflineModeIsEnabled", "ConnectionError"}:
        return "; the Hub is not reached and no copy is kept here: go online, or load a folder that you copied"
    if "RevisionNotFoundError" in kinds:
        return "; look for its branches and tags, or leave the revision out"
    if "RepositoryNotFoundError" in kinds:
        return "; check the name, or log in with `hf auth login` where it is private"
    return ""


def card(before: Path, name: str, about: str, config: dict[str, Any], labels: dict[str, list[str]] | None) -> str:
    """A model's README: the one that is there, if somebody wrote it, or a short one."""
    try:
        text = before.read_text(encoding="utf-8")
        if WRITTEN not in text:
            return text
    except OSError:
        pass
    height, width = config["size"]
    task = "early action recognition" if config["head"]["name"] == "recognition" else "action anticipation"
    classes = ", ".join(f"{len(names)} classes of {kind}" for kind, names in (labels or {}).items())
    lines = [
        "---",
        "library_name: horst",
        "tags:",
        "- video-classification",
        f"- {task.replace(' ', '-')}",
        "---",
        WRITTEN,
        "",
        f"# {visible(name, lines=False)}",
        "",
        f"For {task}: {about}; frames of {height}x{width}, {config['fps']:g} a second"
        f"{'; ' + classes if classes else ''}.",
        "",
        "```python",
        "import horst",
        "",
        'model = horst.load("this folder, or hf://user/name")',
        "```",
        "",
    ]
    return "\n".join(lines)
