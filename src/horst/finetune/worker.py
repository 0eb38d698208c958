"""The process that trains for a `Finetuner`: python -m horst.finetune.worker

The first line of its input is the request, as JSON. The input then stays open: when it closes, the parent has ended,
and so does this process. Each line of its output is a JSON object: progress, and at last "accuracy" or "failed".
"""

import json
import os
import sys
import threading
import time
from dataclasses import asdict
from typing import Any

import torch

from horst.errors import HorstError
from horst.finetune import FinetuneProgress, Recordings, finetune

INTERVAL = 0.1  # shortest time between two lines of progress, in seconds
NICE = 10  # about a tenth of the processor if others want it: serving comes first


def main() -> None:
    request = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if hasattr(os, "nice"):
        os.nice(NICE)
    try:
        _write({"accuracy": _finetune(request)})
    except HorstError as error:
        _write({"failed": str(error)})
    except Exception as error:
        _write({"failed": f"{type(error).__name__}: {error}"})
        raise


def _finetune(request: dict[str, Any]) -> float | None:
    torch.set_num_threads(request.pop("threads"))
    last = 0.0

    def report(progress: FinetuneProgress) -> None:
        nonlocal last
        if time.monotonic() - last >= INTERVAL:
            last = time.monotonic()
            _write(asdict(progress))

    held_out = finetune(Recordings(request.pop("recordings")).clips(), report=report, **request).held_out
    return held_out.accuracy if held_out else None


def _write(line: dict[str, Any]) -> None:
    print(json.dumps(line), flush=True)


def _end_with_parent() -> None:
    sys.stdin.read()
    os._exit(1)


if __name__ == "__main__":
    main()
