"""The head with a class for nothing: still scenes and features unlike all prototypes are rejected, others are not."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from horst.heads import OpenRecognitionHead, RecognitionHead

ACTIONS, CHANNELS = 3, 8


@pytest.fixture
def head() -> OpenRecognitionHead:
    """Each action has a channel of its own, and the last channel is 0 while a scene is still."""
    made = OpenRecognitionHead(CHANNELS, num_classes=ACTIONS + 1)
    with torch.no_grad():
        made.fc.weight.copy_(torch.eye(ACTIONS + 1, CHANNELS))
        made.fc.weight[-1] = 0
        made.fc.bias.copy_(torch.tensor([0.0, 0, 0, -100]))
        made.rejection.prototypes.copy_(torch.eye(ACTIONS, CHANNELS))
    return made


def answer(head: OpenRecognitionHead, *channels: float) -> int:
    y = F.pad(torch.tensor(channels, dtype=torch.float32), (0, CHANNELS - len(channels)))
    return int(head(y=y.view(1, CHANNELS, 1, 1)).action.argmax())


def test_before_it_is_set_nothing_is_rejected(head: OpenRecognitionHead) -> None:
    y = torch.randn(2, 5, CHANNELS, 3, 3, generator=torch.Generator().manual_seed(0))
    plain = RecognitionHead(CHANNELS, num_classes=ACTIONS + 1)
    plain.load_state_dict(head.state_dict(), strict=False)
    logits = head(y=y).action
    assert torch.equal(logits[..., :-1], plain(y=y).action[..., :-1])
    assert (logits[..., -1] < logits[..., :-1].amax(-1) - 50).all()


def test_features_unlike_all_prototypes_are_nothing(head: OpenRecognitionHead) -> None:
    head.rejection.threshold[0], head.rejection.slope[0] = 0.5, 10.0
    assert [answer(head, *row) for row in torch.eye(3).tolist()] == [0, 1, 2]
    assert answer(head, 5, 0, 0, 20) == ACTIONS  # the logit is large, the direction another one
    assert answer(head, 0.01, 0, 0, 0.001) == 0  # the length does not count


def test_a_still_scene_is_nothing(head: OpenRecognitionHead) -> None:
    head.rejection.constant[-1] = 1
    head.rejection.threshold[1], head.rejection.slope[1] = 2.0, 1.0
    assert answer(head, 1) == ACTIONS
    assert answer(head, 1, 0, 0, 0, 0, 0, 0, 1.9) == ACTIONS
    assert answer(head, 1, 0, 0, 0, 0, 0, 0, -2.1) == 0


def test_where_less_has_moved_features_may_be_further_from_prototypes(head: OpenRecognitionHead) -> None:
    head.rejection.constant[-1] = 1
    head.rejection.threshold[0], head.rejection.slope[0] = 0.5, 10.0
    early = 1, 0, 0, 2, 0, 0, 0, 1  # cos 0.41
    assert answer(head, *early) == ACTIONS
    head.rejection.rise, head.rejection.typical = torch.tensor(0.1), torch.tensor(4.0)
    head.rejection.threshold[0] = 0.5 - 0.1 * 4
    assert answer(head, *early) == 0
    assert answer(head, 1, 0, 0, 8, 0, 0, 0, 4) == ACTIONS  # as far when all has moved
    assert answer(head, 4, 0, 0, 0, 0, 0, 0, 5) == 0  # more than typical does not count: cos 0.62


def test_clips_of_nothing_count_too(head: OpenRecognitionHead) -> None:
    """The larger of both logits is that of nothing."""
    with torch.no_grad():
        head.fc.bias[-1] = 3
    assert answer(head, 2) == ACTIONS
    assert answer(head, 4) == 0


def test_the_logits_are_those_of_the_equations(head: OpenRecognitionHead) -> None:
    """With random weights everywhere, against a loop over features."""
    torch.manual_seed(0)
    for part in (head.fc, head.rejection):
        for value in (*part.parameters(), *part.buffers()):
            value.data.normal_()
    r = head.double().rejection
    r.constant.copy_(torch.arange(CHANNELS) % 2)
    z = torch.randn(20, CHANNELS, dtype=torch.float64)
    found = head(y=z[..., None, None]).action
    for row, logits in zip(z, found, strict=True):
        expected = head.fc(row)
        near = max(float(row @ p) / float(row.norm()) for p in r.prototypes)
        moved = float(((row - r.still) * r.constant).square().sum()) ** 0.5
        values = (near - float(r.rise) * min(moved, float(r.typical)), moved)
        rejected = max(float(r.slope[i]) * (float(r.threshold[i]) - values[i]) for i in range(2))
        expected[-1] = max(float(expected[-1]), float(expected[:-1].max()) + rejected)
        torch.testing.assert_close(logits, expected)
