"""How early a model is right where its thinking takes time: accuracy by what a step costs.

    python -m benchmarks.latency [--clips 120]

The package's model watches fresh clips of `somethings` live: it is busy for so many milliseconds with every frame, the
frames of that time are lost but for the newest, and an answer counts from the moment at which it is ready.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator

from horst.evaluation.evaluate import clip_for
from horst.evaluation.latency import COSTS, FRACTIONS, LabelledClip, evaluate_live, step_time
from horst.models import Predictor, open_model
from horst.synth.fresh import Fresh, fresh_somethings


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clips", type=int, default=120)
    parser.add_argument("--seed", type=int, default=2000)
    args = parser.parse_args()
    model = open_model("somethings").eval()
    ours = step_time(model)
    costs = sorted([*COSTS, ours])
    with tempfile.TemporaryDirectory() as folder:
        rows = evaluate_live(model, clips_of(model, fresh_somethings(folder, args.clips, args.seed)), costs)
    print("a step costs".ljust(20), *(f"{fraction:.0%}".rjust(6) for fraction in FRACTIONS), "  frames seen")
    for row in rows:
        name = f"{1e3 * row.cost:.0f} ms" + (", this machine" if row.cost == ours else "")
        cells = (f"{100 * row.accuracy[fraction]:.1f}%".rjust(6) for fraction in FRACTIONS)
        print(name.ljust(20), *cells, f"{100 * row.seen:.0f}%".rjust(13))


def clips_of(model: Predictor, fresh: Fresh) -> Iterator[LabelledClip]:
    for example in fresh.annotations.split("val").examples:
        yield fresh.clip(example, clip_for(fresh, model)).frames, example.labels["action"]


if __name__ == "__main__":
    main()
