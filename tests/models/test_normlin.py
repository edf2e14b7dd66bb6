import torch

from fighter.models import Task, build_core
from fighter.models.embedding import time_basis

TASK = Task(lookback=20, horizon=4, series=3, outputs=2, context=2)
PAST, CONTEXT = torch.randn(2, 20, 3), torch.randn(2, 2)


def test_normlin_is_its_formula_with_every_matrix_formed():
    core = build_core("normlin", TASK, width=8, layers=1, channels=3, hidden_width=10).eval()
    correlation = torch.rand(20)
    core.prepare(correlation)
    core.before.data.normal_()
    core.after.data.normal_()
    block, norm = core.encoder
    graph = block.mix.adjacency.logits[0].mul(10).exp().add(1).log()
    graph = graph / graph.sum(1, keepdim=True)
    near, far = time_basis(correlation, 20), time_basis(correlation, 4)
    seen = (PAST.mT + core.before) @ near  # [2, 3, 20]
    spread = (seen[..., None] * core.embed.vector).flatten(2)
    x = spread @ core.embed.weight.flatten(0, 1) + core.embed.bias + core.context(CONTEXT)[:, None]
    sent = graph @ (x @ block.mix.weight(0)) @ block.mix.mix.weight.T + block.mix.bias
    x = block.norm1(x + sent)
    x = norm(block.norm2(x + block.feed(x)))
    ahead = core.steps(x).unflatten(-1, (3, 4)) @ far.T + core.after
    wanted = core.head(ahead.flatten(2)).unflatten(-1, (4, 2)).transpose(1, 2)
    torch.testing.assert_close(core(PAST, CONTEXT), wanted)


def test_each_series_starts_with_more_weight_on_itself():
    graph = build_core("normlin", Task(4, 1, 200), width=8, layers=1).encoder[0].mix.adjacency
    a = graph.graph(torch.zeros(1, 200, 8))[0, 0]
    others = (a.sum() - a.diagonal().sum()) / (200 * 199)
    assert 1.3 < a.diagonal().mean() / others < 2.3  # E softplus(1 + n) / E softplus(n) = 1.75
