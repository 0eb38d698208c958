"""Which implementation runs: the requested one, that of the environment, or the best; and why one cannot run."""

from __future__ import annotations

import importlib.util

import pytest
import torch

import horst
from horst.errors import ConfigError
from horst.ops.backend import choose

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def no_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.delenv("HORST_BACKEND", raising=False)


def test_without_a_gpu_pytorch_runs() -> None:
    assert str(choose(CPU)) == "reference: the kernels need an NVIDIA GPU, this is cpu"
    assert choose(CPU, wanted="compiled").name == "compiled"
    with pytest.raises(ConfigError, match=r"triton \(requested\) cannot run: the kernels need an NVIDIA GPU"):
        choose(CPU, wanted="triton")


def test_the_environment_variable_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HORST_BACKEND", "compiled")
    assert str(choose(CPU)) == "compiled: set by HORST_BACKEND"
    assert choose(CPU, wanted="reference").name == "reference"
    monkeypatch.setenv("HORST_BACKEND", "cuda")
    with pytest.raises(ConfigError, match="HORST_BACKEND is 'cuda'; choose from auto"):
        choose(CPU)


def test_options_without_kernels_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    model = horst.create_model("horst_tiny", attention="joint", output="residual+e")
    model.core.use_backend("triton")
    with pytest.raises(ConfigError, match="no kernels for attention=joint, output=residual\\+e"):
        model.core.backend(CPU)


def test_without_triton_the_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="pip install 'horst-video\\[triton\\]'"):
        choose(CPU, wanted="triton")


def test_an_unknown_name_is_an_error() -> None:
    with pytest.raises(ConfigError, match="backend"):
        horst.create_model("horst_tiny").core.use_backend("cuda")  # type: ignore[arg-type]
