import pytest
import torch

from fighter import FighterError
from fighter.nn import FlexibleGCN


def graph(nodes=6, batch=()):
    a = torch.rand(*batch, nodes, nodes, dtype=torch.float64)
    return a * (torch.rand(*batch, nodes, nodes) < 0.5)


def literal(gcn, x, a):
    """Compute Eq. 1 as printed: [I, A, …, A^(κ-1)] blkdiag(X; κ) W."""
    for layer, (values, kappa) in enumerate(zip(gcn.values, gcn.kappas, strict=True)):
        powers = torch.cat([torch.linalg.matrix_power(a, i) for i in range(kappa)], -1)
        stacked = torch.block_diag(*[x] * kappa)
        w = torch.cat([w.T for w in values.weight.chunk(kappa)])
        x = powers @ stacked @ w
        x = gcn.activation(x) if layer < len(gcn.values) - 1 else x
    return x


@pytest.mark.parametrize("kappa", [1, 2, 3, (4, 2)])
def test_a_gcn_equals_the_block_form_of_the_paper(kappa):
    gcn, a = FlexibleGCN([4, 5, 2], kappa=kappa).double(), graph()
    x = torch.randn(6, 4, dtype=torch.float64)
    torch.testing.assert_close(gcn(x, a), literal(gcn, x, a), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("layout", ["coo", "csr"])
@pytest.mark.parametrize("batch", [(), (3,)])
@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")
def test_a_sparse_graph_gives_the_same_value_and_gradients(layout, batch):
    gcn, a = FlexibleGCN([4, 5, 2], kappa=3).double(), graph()
    x = torch.randn(*batch, 6, 4, dtype=torch.float64)
    sparse = a.to_sparse() if layout == "coo" else a.to_sparse_csr()
    results = []
    for adjacency in (a, sparse):
        gcn.zero_grad()
        y = gcn(x, adjacency)
        y.square().sum().backward()
        results.append([y, *(p.grad.clone() for p in gcn.parameters())])
    torch.testing.assert_close(results[1], results[0])


def test_each_example_may_have_its_own_graph():
    gcn, a = FlexibleGCN([4, 5, 2], kappa=3, bias=True).double(), graph(batch=(3,))
    torch.nn.init.normal_(gcn.biases[0])
    x = torch.randn(3, 6, 4, dtype=torch.float64)
    torch.testing.assert_close(gcn(x, a)[1], gcn(x[1], a[1]))


@pytest.mark.parametrize("kappa", [0, 1, 2, 4])
def test_the_conventional_gcn_is_a_special_case(kappa):
    a, x = graph(), torch.randn(6, 4, dtype=torch.float64)
    w1, w2 = torch.randn(4, 5, dtype=torch.float64), torch.randn(5, 2, dtype=torch.float64)
    s = torch.linalg.matrix_power(a + torch.eye(6), kappa)
    wanted = s @ (s @ x @ w1).relu() @ w2
    torch.testing.assert_close(FlexibleGCN.conventional([w1, w2], kappa)(x, a), wanted)


@pytest.mark.parametrize(
    ("call", "argument", "needed"),
    [
        (lambda: FlexibleGCN([4, 2])(torch.randn(6, 3), torch.eye(6)), "x", r"\[nodes, 4\]"),
        (lambda: FlexibleGCN([4, 2])(torch.randn(4), torch.eye(6)), "x", r"\[nodes, 4\]"),
        (lambda: FlexibleGCN([4, 2])(torch.randn(6, 4), torch.eye(5)), "adjacency", r"\[6, 6\]"),
        (lambda: FlexibleGCN([4, 2])(torch.randn(6, 4), torch.eye(6)[None]), "adjacency", None),
        (lambda: FlexibleGCN([4, 2], kappa=0), "kappa", "at least 1"),
        (lambda: FlexibleGCN([4, 2], kappa=[1, 2]), "kappa", "1 layers"),
        (lambda: FlexibleGCN([4]), "widths", None),
        (lambda: FlexibleGCN.conventional([], 2), "weights", None),
        (lambda: FlexibleGCN.conventional([torch.eye(2)], -1), "kappa", "at least 0"),
    ],
)
def test_errors_name_the_argument(call, argument, needed):
    with pytest.raises(FighterError, match=needed) as error:
        call()
    assert error.value.argument == argument
