import pytest
import torch

from fighter import FighterError, multi_hop
from fighter.hops import hop_features
from tests.hops.oracle import draw

Q, K, BLOCKS = draw(batch=2, heads=2, nodes=5, query=4, width=6, grad=False)
NOTHING_TO_SEE = torch.ones(2, 5, dtype=torch.bool).scatter(0, torch.ones(1, 5, dtype=int), False)
BLIND_ROW = torch.ones(1, 1, 5, 5, dtype=torch.bool).tril(-1)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"q": Q.long()}, r"q is int64 \[2, 2, 5, 4\]: needs a floating-point"),
        ({"q": Q[0]}, r"q is float64 \[2, 5, 4\]: needs four non-empty axes"),
        ({"q": Q.tolist()}, "q is list"),
        ({"k": K[:, :, :3]}, "self-attention only"),
        ({"k": K[:, :1]}, "batch, heads and nodes must be the same"),
        ({"k": K[..., :3]}, "same width"),
        ({"k": K.float()}, "one dtype"),
        ({"k": K.to("meta")}, "k is on meta, q on cpu"),
        ({"blocks": []}, "κ must be at least 1"),
        ({"blocks": BLOCKS[0]}, "blocks is float64.*list of κ tensors"),
        ({"blocks": [BLOCKS[0], BLOCKS[1][..., :2]]}, r"blocks\[1\].*same width"),
        ({"blocks": [BLOCKS[0].int()]}, r"blocks\[0\] is int32"),
        ({"blocks": [BLOCKS[0][:, :, :4]]}, r"blocks\[0\].*self-attention only"),
        ({"powers": (0, 2)}, r"powers=\(0, 2\) names 2 powers, blocks holds 3"),
        ({"powers": (0, 2, 1)}, "rising order"),
        ({"powers": (-1, 0, 1)}, "whole number ≥ 0"),
        ({"mask": torch.ones(5, 5, dtype=torch.bool)}, r"bool \[5, 5\]: needs a bool \[batch=2"),
        ({"mask": torch.ones(2, 5)}, r"float32 \[2, 5\]: needs a bool"),
        ({"mask": torch.ones(1, 1, 5, 5, dtype=torch.int64)}, "int64"),
        ({"mask": torch.ones(3, 1, 5, 5)}, r"\[2 or 1, 2 or 1, 5, 5\]"),
        ({"mask": [True] * 5}, "mask is list"),
        ({"mask": NOTHING_TO_SEE}, "sequence 1 leaves every node out"),
        ({"mask": BLIND_ROW}, r"row \[batch, head, node\] \[0, 0, 0\] may look at no node"),
        ({"mask": torch.full((1, 1, 5, 5), -torch.inf)}, "5 such in all"),
        ({"mask": BLIND_ROW.mT | BLIND_ROW, "causal": True}, r"\[0, 0, 0\]"),
        ({"scale": float("nan")}, "scale=float nan: needs a finite number"),
        ({"scale": 0}, "other than 0"),
        ({"scale": torch.ones(2)}, "multiply q by a learned temperature"),
        ({"backend": "flash"}, "backend='flash': needs one of auto, reference, stored, sdpa"),
    ],
)
def test_misuse_names_the_argument_what_came_and_what_is_needed(changed, message):
    arguments = {"q": Q, "k": K, "blocks": BLOCKS} | changed
    with pytest.raises(FighterError, match=message):
        multi_hop(**arguments)


def test_hop_features_checks_too():
    with pytest.raises(FighterError, match="x is int64"):
        hop_features(Q, K, BLOCKS[0].long(), (0, 1))
    with pytest.raises(FighterError, match="at least one power"):
        hop_features(Q, K, BLOCKS[0], ())


def test_fused_attention_says_when_it_cannot():
    mask = torch.zeros(1, 1, 5, 5, dtype=torch.float64, requires_grad=True)
    with pytest.raises(FighterError, match="no gradient for a float mask"):
        multi_hop(Q, K, BLOCKS, mask=mask, backend="sdpa")
