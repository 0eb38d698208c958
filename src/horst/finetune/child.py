"""The process that teaches, started by `Teacher`: python -m horst.finetune.child

Its first line of input is what to do, as JSON. After that the input stays open and empty; when it closes, whoever
started it is gone, and it ends. Each line of its output is a JSON object: progress, and at last "done" or "failed".
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from dataclasses import asdict
from typing import Any

from horst.errors import HorstError

BEAT = 0.1
"""Seconds between two lines of progress at least."""
NICE = 10
"""About a tenth of the processor where others want it too: whoever is being served comes first, and it still ends."""


def main() -> None:
    request = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if hasattr(os, "nice"):
        os.nice(NICE)
    try:
        _say({"done": _teach(request)})
    except HorstError as error:
        _say({"failed": str(error)})


def _teach(request: dict[str, Any]) -> dict[str, Any]:
    import torch

    from horst.finetune.lesson import Progress
    from horst.finetune.recordings import Recordings
    from horst.finetune.teach import teach

    torch.set_num_threads(request.pop("threads"))
    last = 0.0

    def report(progress: Progress) -> None:
        nonlocal last
        if time.monotonic() - last >= BEAT:
            last = time.monotonic()
            _say(asdict(progress))

    clips = Recordings(request.pop("recordings")).clips()
    return teach(clips, report=report, **request).to_dict()


def _say(line: dict[str, Any]) -> None:
    print(json.dumps(line), flush=True)


def _end_with_parent() -> None:
    sys.stdin.read()
    os._exit(1)


if __name__ == "__main__":
    main()
