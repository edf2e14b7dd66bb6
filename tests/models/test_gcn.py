import pytest
import torch

from fighter.models import Task, build_core
from fighter.models.gcn import lag_graph

TASK = Task(lookback=20, horizon=4, series=3, outputs=2, context=2, period=5)
PAST = torch.randn(2, 20, 3)


def test_the_lag_graph_has_the_short_lags_and_the_period():
    a = lag_graph(9, 2, 5)
    torch.testing.assert_close(a.sum(1), torch.ones(9))
    links = [[s for s in range(9) if a[t, s]] for t in range(9)]
    assert links == [[0], [0], [0, 1], [1, 2], [2, 3], [0, 3, 4], [1, 4, 5], [2, 5, 6], [3, 6, 7]]
    assert a[6].unique().tolist() == pytest.approx([0, 1 / 3])
    assert torch.equal(lag_graph(4, 1), lag_graph(4, 1, 9))
    assert lag_graph(1, 3).tolist() == [[1]]


def test_gcn_is_eq_1_on_the_lag_graph():
    core = build_core("gcn", TASK, width=8, layers=2).eval()
    first, second, last = core.encoder.gcn.values
    x, a = core.embed(PAST) + core.position, lag_graph(20, 3, 5)
    for values in (first, second):
        w = values.weight.T.chunk(3, 1)
        x = sum(torch.linalg.matrix_power(a, i) @ x @ w[i] for i in range(3)).relu()
    torch.testing.assert_close(core.encoder(core.embed(PAST) + core.position), last(x))
