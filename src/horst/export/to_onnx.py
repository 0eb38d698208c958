"""A traced step as ONNX, with the names and axes of the contract, and the contract in its metadata."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import warnings
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch.export import ExportedProgram

from horst.errors import ConfigError, ExportError
from horst.export.contract import KEY, Contract, Port
from horst.extras import require

OPSET = 20
OPSETS = range(18, 24)
"""Opsets that torch writes without a conversion."""


def import_onnx() -> Any:
    require("onnxscript", "export")
    return require("onnx", "export")


def to_onnx(program: ExportedProgram, contract: Contract, opset: int = OPSET) -> Any:
    """The ModelProto of a step."""
    if opset not in OPSETS:
        raise ConfigError(f"opset is {opset}; choose from {OPSETS[0]} to {OPSETS[-1]}")
    import_onnx()
    with torch.no_grad(), _quiet():
        try:
            written = torch.onnx.export(
                program,
                dynamo=True,
                input_names=[port.name for port in contract.inputs],
                output_names=[port.name for port in contract.outputs],
                opset_version=opset,
                verbose=False,
            )
        except torch.onnx.errors.OnnxExporterError as error:
            raise ExportError(f"torch cannot write this model's step as ONNX: {error}") from error
    assert written is not None
    proto: Any = written.model_proto
    for node in proto.graph.node:
        del node.metadata_props[:]  # source locations, with paths on this machine
    del proto.graph.value_info[:]
    del proto.graph.metadata_props[:]
    describe(proto, contract)
    return proto


def describe(proto: Any, contract: Contract) -> None:
    """Write names of axes and the contract into a model."""
    name_axes(proto.graph.input, contract.inputs)
    name_axes(proto.graph.output, contract.outputs)
    proto.producer_name, proto.producer_version = "horst", contract.about["horst"]
    proto.graph.name = contract.what
    del proto.metadata_props[:]
    entry = proto.metadata_props.add()
    entry.key, entry.value = KEY, json.dumps(contract.about, ensure_ascii=False)


def name_axes(values: Iterable[Any], ports: Iterable[Port]) -> None:
    for value, port in zip(values, ports, strict=True):
        assert value.name == port.name
        for axis, length in zip(value.type.tensor_type.shape.dim, port.shape, strict=True):
            if isinstance(length, str):
                axis.dim_param = length
            else:
                axis.dim_value = length


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Suppress the progress and deprecation messages of torch's exporter."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
