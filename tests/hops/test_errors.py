import pytest
import torch

from fighter import FighterError, multi_hop
from fighter.hops import hop_features
from tests.hops.oracle import draw

Q, K, BLOCKS = draw(batch=2, heads=2, nodes=5, query=4, width=6, grad=False)
NO_VALID_NODE = torch.ones(2, 5, dtype=torch.bool).scatter(0, torch.ones(1, 5, dtype=int), False)
EMPTY_ROW = torch.ones(1, 1, 5, 5, dtype=torch.bool).tril(-1)


@pytest.mark.parametrize(
    ("changed", "argument", "message"),
    [
        ({"q": Q.long()}, "q", r"floating-point tensor, not int64 \[2, 2, 5, 4\]"),
        ({"q": Q[0]}, "q", r"four non-empty axes .*, not float64 \[2, 5, 4\]"),
        ({"q": Q[:, :0]}, "q", "non-empty"),
        ({"q": Q.tolist()}, "q", "not list"),
        (
            {"k": K[:, :, :3]},
            "k",
            r"float64 \[2, 2, 5, 4\], not float64 \[2, 2, 3, 4\].*self-attention",
        ),
        ({"k": K[:, :1]}, "k", "batch, heads and nodes of q"),
        ({"k": K[..., :3]}, "k", r"width of q, .*5, 4\], not .*5, 3\]"),
        ({"k": K.float()}, "k", "dtype of q, float64 .*, not float32"),
        ({"k": K.to("meta")}, "k", "on meta, but q is on cpu"),
        ({"blocks": []}, "blocks", "at least one tensor"),
        ({"blocks": BLOCKS[0]}, "blocks", "list of κ tensors, one per hop, not float64"),
        ({"blocks": iter(BLOCKS)}, "blocks", "list of κ tensors"),
        ({"blocks": [BLOCKS[0], BLOCKS[1][..., :2]]}, "blocks[1]", r"5, 6\], not .*5, 2\]"),
        ({"blocks": [BLOCKS[0].int()]}, "blocks[0]", "int32"),
        ({"blocks": [BLOCKS[0][:, :, :4]]}, "blocks[0]", "self-attention"),
        ({"powers": (0, 2)}, "powers", "2 powers for 3 blocks"),
        ({"powers": (0, 2, 1)}, "powers", "rising order"),
        ({"powers": (0, 1, 1)}, "powers", "without repeats"),
        ({"powers": (-1, 0, 1)}, "powers", "whole number ≥ 0"),
        ({"powers": (0, 1.5, 2)}, "powers", "whole number"),
        ({"powers": (False, 1, 2)}, "powers", "whole number"),
        (
            {"mask": torch.ones(5, 5, dtype=torch.bool)},
            "mask",
            r"a bool \[2, 5\].*\[2 or 1, 2 or 1, 5, 5\].*not bool \[5, 5\]",
        ),
        ({"mask": torch.ones(2, 5)}, "mask", r"not float32 \[2, 5\]"),
        ({"mask": torch.ones(1, 1, 5, 5, dtype=torch.int64)}, "mask", "not int64"),
        ({"mask": torch.ones(3, 1, 5, 5)}, "mask", r"not float32 \[3, 1, 5, 5\]"),
        ({"mask": torch.ones(1, 3, 5, 5)}, "mask", r"not float32 \[1, 3, 5, 5\]"),
        ({"mask": torch.ones(1, 1, 5, 4)}, "mask", r"not float32 \[1, 1, 5, 4\]"),
        ({"mask": [True] * 5}, "mask", "not list"),
        ({"mask": NO_VALID_NODE}, "mask", r"sequence 1 .*\(1 in all\)"),
        ({"mask": EMPTY_ROW}, "mask", r"row \[batch, head, node\] \[0, 0, 0\]"),
        ({"mask": torch.full((1, 1, 5, 5), -torch.inf)}, "mask", r"\(5 in all\)"),
        ({"mask": EMPTY_ROW.mT | EMPTY_ROW, "causal": True}, "mask", r"\[0, 0, 0\]"),
        ({"scale": float("nan")}, "scale", "not float nan"),
        ({"scale": float("inf")}, "scale", "finite"),
        ({"scale": 0}, "scale", "other than 0"),
        ({"scale": torch.ones(2)}, "scale", "learned temperature"),
        ({"backend": "flash"}, "backend", "auto, reference, stored, sdpa"),
    ],
)
def test_a_wrong_argument_is_named_and_described(changed, argument, message):
    arguments = {"q": Q, "k": K, "blocks": BLOCKS} | changed
    with pytest.raises(FighterError, match=message) as error:
        multi_hop(**arguments)
    assert error.value.argument == argument


def test_hop_features_checks_its_arguments():
    with pytest.raises(FighterError, match="int64") as error:
        hop_features(Q, K, BLOCKS[0].long(), (0, 1))
    assert error.value.argument == "x"
    with pytest.raises(FighterError, match="at least one power") as error:
        hop_features(Q, K, BLOCKS[0], ())
    assert error.value.argument == "powers"


def test_fused_attention_refuses_a_learned_mask():
    mask = torch.zeros(1, 1, 5, 5, dtype=torch.float64, requires_grad=True)
    with pytest.raises(FighterError, match="no gradient for a float mask") as error:
        multi_hop(Q, K, BLOCKS, mask=mask, backend="sdpa")
    assert error.value.argument == "backend"
