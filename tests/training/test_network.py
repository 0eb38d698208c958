"""The network of training: what a model says with lengths, whatever stands in the padding; compiled or not."""

from __future__ import annotations

import inspect
from copy import deepcopy
from functools import partial
from typing import Any

import pytest
import small_runs
import torch
from torch import Tensor

from horst.heads import Logits, UnrollingHead
from horst.models import Predictor, create_model
from horst.training.config import Loss
from horst.training.losses import clip_loss, frame_weights
from horst.training.network import LONG_RUN, CUDAGraphNetwork, Encoder, TrainingNetwork, thread_local_capture

LENGTHS = [5, 2, 4]
SIZE = (16, 16)
COUNTS = {"num_classes": 5, "num_verbs": 3, "num_nouns": 4}
MODELS: dict[str, dict[str, Any]] = {
    "horst_tiny": {"num_classes": 5},
    "horst_tiny_anticipation": COUNTS,
    "horst_ek55_unroll": COUNTS,
}


def model_of(name: str, variant: str = "released") -> Predictor:
    torch.manual_seed(0)
    options = {**small_runs.TINY, "variant": variant, "norm": "batch"}
    return create_model(name, **options, **MODELS[name], size=SIZE)


def clips(frames: int, lengths: list[int] = LENGTHS, fill: int = 0) -> tuple[Tensor, Tensor]:
    """Random frames, the same whatever is in the padding, and which are no padding."""
    generator = torch.Generator().manual_seed(1)
    real = torch.randint(0, 256, (len(lengths), max(lengths), 3, *SIZE), generator=generator, dtype=torch.uint8)
    out = torch.full((len(lengths), frames, 3, *SIZE), fill, dtype=torch.uint8)
    valid = torch.arange(frames) < torch.tensor(lengths)[:, None]
    out[:, : max(lengths)] = real
    out[~valid] = fill
    return out, valid


def loss_of(network: TrainingNetwork, frames: Tensor, valid: Tensor) -> Tensor:
    logits = Logits(*network(frames, valid))
    labels = {task: torch.arange(len(valid)) % 3 for task in logits}
    options = Loss(steps="every", label_smoothing=0.1)
    return clip_loss(logits, labels, frame_weights(options, valid, valid, 0), valid, options).loss


@pytest.mark.parametrize("variant", ["released", "paper"])
@pytest.mark.parametrize("name", ["horst_tiny", "horst_tiny_anticipation"])
@pytest.mark.parametrize("training", [True, False])
def test_it_says_what_the_model_says(name: str, variant: str, training: bool) -> None:
    model = model_of(name, variant)
    frames, valid = clips(5)
    network = TrainingNetwork(model).train(training)
    with torch.no_grad():
        ours = Logits(*network(frames, valid))
        theirs = model(frames, lengths=torch.tensor(LENGTHS))[0].logits
    assert ours.keys() == theirs.keys()
    for task in theirs:
        torch.testing.assert_close(ours[task][valid], theirs[task][valid], rtol=1e-5, atol=1e-6)


def test_an_unrolling_model_unrolls_to_the_end_of_the_clip() -> None:
    model = model_of("horst_ek55_unroll")
    frames, valid = clips(5, [5, 5])
    network = TrainingNetwork(model).eval()
    with torch.no_grad():
        torch.testing.assert_close(
            network(frames, valid)[0], model(frames, unroll=[5, 4, 3, 2, 1])[0].logits.action, rtol=1e-5, atol=1e-6
        )


@pytest.mark.parametrize("name", ["horst_tiny", "horst_tiny_anticipation"])
def test_padding_changes_nothing(name: str) -> None:
    """Neither its length nor what is in it: losses, gradients and statistics are the same.

    In float64: in float32 an entry of a gradient, a sum with terms that cancel, differs by more than its own size.
    """
    found = []
    for frames, fill in ((5, 0), (7, 255)):
        model = model_of(name).double()
        loss = loss_of(TrainingNetwork(model), *clips(frames, fill=fill))
        loss.sum().backward()
        found.append((loss.detach(), {n: p.grad for n, p in model.named_parameters()}, dict(model.named_buffers())))
    assert found[0][0].dtype == torch.float64
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-12)


def test_a_frozen_backbone_stays_as_it_was() -> None:
    stem = {**small_runs.TINY["backbone"], "norm": "batch"}  # type: ignore[dict-item]
    model = create_model("horst_tiny", **{**small_runs.TINY, "backbone": stem}, num_classes=5, size=SIZE)
    before = {name: value.clone() for name, value in model.backbone.state_dict().items()}
    network = TrainingNetwork(model, freeze_backbone=True).train()
    loss_of(network, *clips(5)).sum().backward()
    assert all(p.grad is None for p in model.backbone.parameters())
    assert all(p.grad is not None for p in model.core.parameters())
    small_runs.assert_same(before, dict(model.backbone.state_dict()))


def completed(head: UnrollingHead, pooled: tuple[Tensor, Tensor, Tensor], t: int) -> Tensor:
    """Sequence completion from frame t, as a loop: the LSTM reads the frames that follow, up to the last."""
    y, e, statt = pooled
    seen = (e + statt)[:, t]
    xi_v, xi_n = torch.relu(head.fc_xi_v(seen)), torch.relu(head.fc_xi_n(seen))
    feat = torch.relu(head.fc_feat(torch.cat([xi_v, xi_n], -1)))
    h, c = head.fc_h(feat), head.fc_c(feat)
    for k in range(t, y.shape[1]):
        h, c = head.lstm(y[:, k], (h, c))
    return head.fc_a(h)


def test_sequence_completion_reads_the_frames_that_follow() -> None:
    model = model_of("horst_ek55_unroll", "paper").eval()
    assert isinstance(model.head, UnrollingHead)
    network = TrainingNetwork(model).eval()
    frames, valid = clips(5, [5, 5])
    with torch.no_grad():
        without = network(frames, valid)[0]
        network.completion = network.training = True  # without its dropout
        action = network(frames, valid)[0]
        out, _ = model.core(model.backbone(frames.flatten(0, 1)).unflatten(0, (2, 5)))
        pooled = tuple(model.head.pool(None, y=out.y, e=out.e[-1], statt=out.statt[-1]))
        for t in range(5):
            expected = completed(model.head, pooled, t)  # type: ignore[arg-type]
            torch.testing.assert_close(action[:, t], expected, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(action[:, -1], without[:, -1])  # nothing follows the last
    assert not torch.allclose(action[:, 0], without[:, 0])


@pytest.mark.real_rounding
@pytest.mark.parametrize("variant", ["released", "paper"])
def test_compiled_it_computes_the_same_and_is_compiled_once(variant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[torch.fx.GraphModule] = []

    def count(graph: torch.fx.GraphModule, inputs: list[Tensor]) -> Any:
        compiled.append(graph)
        return graph.forward

    torch._dynamo.reset()
    plain, fast = model_of("horst_tiny", variant), model_of("horst_tiny", variant)
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=count))
    fast.core.use_backend("compiled")
    seen = []
    for frames, lengths in ((5, LENGTHS), (3, [3, 1, 2]), (8, [8, 8, 1]), (5, [1, 5, 5])):
        both = [loss_of(TrainingNetwork(model), *clips(frames, lengths)) for model in (plain, fast)]
        torch.testing.assert_close(both[1], both[0], rtol=1e-4, atol=1e-6)
        for loss, model in zip(both, (plain, fast), strict=True):
            model.zero_grad()
            loss.sum().backward()
        for a, b in zip(plain.parameters(), fast.parameters(), strict=True):
            torch.testing.assert_close(b.grad, a.grad, rtol=1e-3, atol=1e-5)
        seen.append(len(compiled))
    assert seen[0] >= 2  # both layers
    assert set(seen) == {seen[0]}  # and never again, whatever the lengths
    with torch.no_grad():  # without gradients it runs as it is, also on other batch sizes
        frames, valid = clips(5, [5])
        torch.testing.assert_close(
            TrainingNetwork(fast).eval()(frames, valid), TrainingNetwork(plain).eval()(frames, valid)
        )
    assert len(compiled) == seen[0]


def test_a_capture_lets_other_threads_allocate() -> None:
    """The thread that pins the next batch would end it, by CUDA's default; torch's function asks `torch.cuda.graph`."""
    before = torch.cuda.graph
    with thread_local_capture():
        assert torch.cuda.graph.keywords == {"capture_error_mode": "thread_local"}  # type: ignore[attr-defined]
    assert torch.cuda.graph is before
    assert "torch.cuda.graph(" in inspect.getsource(torch.cuda.make_graphed_callables)


def test_completion_is_for_training_alone() -> None:
    """What is said of a validation clip at a frame does not depend on those that follow."""
    network = TrainingNetwork(create_model("rulstm_tiny", backbone={"name": "stem", "widths": [4]}, size=SIZE))
    network.completion = True
    network.eval()
    frames = torch.randint(0, 256, (2, 6, 3, *SIZE), dtype=torch.uint8)
    later = frames.clone()
    later[:, 3:] = 255
    valid = torch.ones(2, 6, dtype=torch.bool)
    (found,), (other,) = network(frames, valid), network(later, valid)
    torch.testing.assert_close(found[:, :3], other[:, :3], rtol=0, atol=0)
    assert not torch.equal(found[:, 3:], other[:, 3:])


@pytest.mark.parametrize(
    ("name", "steps", "frames"), [("rulstm_tiny", 10, 14), ("horst_tiny", 10, 16), ("horst_tiny", LONG_RUN, 14)]
)
def test_padding_of_clips_for_a_graph(name: str, steps: int, frames: int) -> None:
    """A head that unrolls counts from a clip's end: padding would change its horizons. A long run pads little."""
    network = TrainingNetwork(create_model(name, backbone={"name": "stem", "widths": [4]}, size=SIZE))
    graphed = CUDAGraphNetwork(network, steps=steps)
    shown: list[int] = []

    def capture(frames: Tensor, valid: Tensor) -> Any:
        shown.append(frames.shape[1])
        return network

    graphed._capture = capture  # type: ignore[method-assign]
    logits, *_ = graphed(torch.zeros(1, 14, 3, *SIZE, dtype=torch.uint8), torch.ones(1, 14, dtype=torch.bool))
    assert shown == [frames]
    assert logits.shape[1] == 14


def test_a_head_that_exchanges_statistics_stays_outside_of_the_graph() -> None:
    """Backbone and core over the padded clip, then the head over the clip: as the whole network without padding."""
    torch.manual_seed(0)
    options = {"backbone": {"name": "stem", "widths": [4]}, "hidden": [4], "stride": [1], "order": 2, "size": SIZE}
    model = create_model("horst_tiny", norm="batch", **options)
    plain, network = TrainingNetwork(deepcopy(model)), TrainingNetwork(model)
    assert CUDAGraphNetwork(network).with_head
    graphed = CUDAGraphNetwork(network, processes=2)
    assert not graphed.with_head
    graphed._capture = lambda *given: Encoder(network)  # type: ignore[method-assign]
    frames, valid = torch.randint(0, 256, (2, 6, 3, *SIZE), dtype=torch.uint8), torch.ones(2, 6, dtype=torch.bool)
    valid[1, 4:] = False
    (found,), (wanted,) = graphed(frames, valid), plain(frames, valid)
    torch.testing.assert_close(found, wanted)
    found[valid].sum().backward()
    wanted[valid].sum().backward()
    assert {name for name, _ in Encoder(network).named_parameters()} < {n for n, _ in model.named_parameters()}
    for name, p in plain.model.named_parameters():
        torch.testing.assert_close(model.get_parameter(name).grad, p.grad, msg=lambda m, n=name: f"{n}: {m}")
    for name, b in plain.model.named_buffers():
        torch.testing.assert_close(model.get_buffer(name), b)
