"""Write the graphs that come with the package: python -m tools.export_graphs

Run it after a change of `horst.export.stages` or of the layers; tests/export/test_engine.py fails if it is needed.
"""

from pathlib import Path

import horst
from horst.export.stages import architecture, graph, stages
from horst.finetune.run import MOTION_POOL, open_base
from horst.io import digest

FOLDER = Path(__file__).parents[1] / "src" / "horst" / "assets" / "graphs"


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for old in FOLDER.glob("*.onnx"):
        old.unlink()
    for model in (*map(horst.open_model, ("kitchen", "somethings")), open_base(MOTION_POOL).eval()):
        for name in stages(model):
            path = FOLDER / f"{name}-{digest(architecture(model, name))[:16]}.onnx"
            path.write_bytes(graph(model, name))
            print(path.name, path.stat().st_size)


if __name__ == "__main__":
    main()
