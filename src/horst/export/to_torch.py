"""A traced step as a .pt2 file: of torch.export, or compiled by AOTInductor for this machine."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import torch
from torch.export import ExportedProgram

from horst.errors import ExportError
from horst.export.contract import KEY, Contract

ABOUT = f"{KEY}.json"
"""The name of the contract in torch.export's file."""


def save_program(program: ExportedProgram, contract: Contract, path: Path) -> None:
    torch.export.save(program, path, extra_files={ABOUT: json.dumps(contract.about)})


def compile_program(program: ExportedProgram, contract: Contract, path: Path) -> None:
    from torch._inductor import aoti_compile_and_package, cpp_builder, exc

    try:
        cpp_builder.get_cpp_compiler()
    except exc.InvalidCxxCompiler as error:
        raise ExportError("AOTInductor needs a C++ compiler: install g++, or set the variable CXX") from error
    options = {"aot_inductor.metadata": {KEY: json.dumps(contract.about)}}
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            aoti_compile_and_package(program, package_path=str(path), inductor_configs=options)
        except (exc.CppCompileError, RuntimeError) as error:
            raise ExportError(f"AOTInductor cannot compile this model's step: {error}") from error
