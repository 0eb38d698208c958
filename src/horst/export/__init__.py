"""A model as a file that runs without this package: ONNX, torch.export or AOTInductor, checked before it is kept.

    report = export_model(model, Path("model-step.onnx"))
    graph = open_graph(report.path, "onnx")

The contract of such a file (names, shapes, start, labels) is in `contract`, and inside of the file itself.
"""

from horst.export.check import ExportReport
from horst.export.contract import Contract, Format, What
from horst.export.export import SUFFIX, export_model
from horst.export.graph import Graph, open_graph

__all__ = ["SUFFIX", "Contract", "ExportReport", "Format", "Graph", "What", "export_model", "open_graph"]
