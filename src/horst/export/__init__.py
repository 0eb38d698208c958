"""Export a model to a file that runs without this package: ONNX, torch.export or AOTInductor. Every file is checked.

    report = export_model(model, Path("model-step.onnx"))
    graph = open_graph(report.path, "onnx")

The contract of a file (names, shapes, initial state, labels) is described in `contract` and stored in the file.
"""

from horst.export.check import ExportReport
from horst.export.contract import Contract, Format, What
from horst.export.export import SUFFIX, export_model
from horst.export.graph import Graph, open_graph

__all__ = ["SUFFIX", "Contract", "ExportReport", "Format", "Graph", "What", "export_model", "open_graph"]
