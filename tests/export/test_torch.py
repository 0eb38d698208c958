"""The step as a file of torch.export and of AOTInductor: equal to the model for streams of any age."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from small_graphs import difference, small
from torch._inductor import config, cpp_builder, exc
from torch.export import ExportedProgram

from horst.errors import ExportError
from horst.export import Format, export_model, open_graph
from horst.export.contract import Contract, contract
from horst.export.export import compile_program
from horst.export.step import trace
from horst.models import Predictor

Traced = tuple[Predictor, Contract, ExportedProgram]


@pytest.fixture(scope="module")
def traced() -> Traced:
    model = small("paper, recognition")
    step = contract(model, "step")
    return model, step, trace(model, step, None)


@pytest.mark.parametrize("format", ["torch", pytest.param("aoti", marks=pytest.mark.slow)])
def test_steps_of_streams_of_any_age(
    traced: Traced, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: Format
) -> None:
    """With AOTInductor's vectorised code."""
    if format == "aoti":
        if shutil.which(os.environ.get("CXX", "g++")) is None:
            pytest.skip("AOTInductor needs a C++ compiler: apt-get install g++")
        monkeypatch.setattr(config.aot_inductor, "compile_wrapper_opt_level", "O0")  # not of the kernels
        monkeypatch.setattr(config.cpp, "vec_isa_ok", True)  # believe the CPU instead of compiling a program to ask it
    model, step, program = traced
    monkeypatch.setattr("horst.export.export.trace", lambda *_: program)
    report = export_model(model, tmp_path / "step.pt2", format=format, repeat=1)
    assert report.error <= 1e-4
    assert [file.name for file in tmp_path.iterdir()] == ["step.pt2"]
    graph = open_graph(tmp_path / "step.pt2", format)
    assert graph.about == step.about
    for batch in (1, 3):
        assert difference(graph, model, batch, frames=24) <= 1e-4


def test_without_a_compiler(traced: Traced, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> str:
        raise exc.InvalidCxxCompiler

    monkeypatch.setattr(cpp_builder, "get_cpp_compiler", none)
    with pytest.raises(ExportError, match=r"needs a C\+\+ compiler: install g\+\+"):
        compile_program(traced[2], traced[1], tmp_path / "step.pt2")
