import json
from copy import deepcopy

import pytest
import torch
import torch.nn.functional as F

from fighter import FighterError
from paper.reproduction import backward
from paper.reproduction.backward import Attention, build_networks, draw_windows, measure
from paper.theory import models, printed

SIZES = {"lookback": 12, "horizon": 5, "width": 8}
SMALL = {**SIZES, "batch_size": 6}


@pytest.fixture(scope="module")
def values():
    generator = torch.Generator().manual_seed(3)
    time = torch.arange(400)[:, None] / torch.tensor([4.0, 6.0, 9.0])
    return time.sin() + 0.1 * torch.randn(400, 3, generator=generator)


@pytest.fixture(scope="module")
def result(values):
    return measure(values, steps=60, **SMALL)


def first_step(values):
    """Return the networks after the backward pass of the first step, and its batch."""
    net, gcn = build_networks(3, **SIZES, seed=0)
    past, future = next(draw_windows(values.double(), 12, 5, 6, seed=0))
    forward = net(past)
    F.mse_loss(forward.forecast, future).backward()
    return net, gcn, forward, past, future


def real_loss(net, past, future):
    """Return the loss computed by the encoder itself, which never multiplies W_V and W₁."""
    x = net.encoder(net.embed(past) + net.position)
    return F.mse_loss(net.over_time(x.transpose(1, 2)).transpose(1, 2), future)


def cosine(a, b):
    return float((a * b).sum() / (a.norm() * b.norm()))


def test_the_network_is_the_encoder_with_the_same_gradients(values):
    net, _, forward, past, future = first_step(values)
    other = deepcopy(net)
    other.zero_grad()
    real_loss(other, past, future).backward()
    torch.testing.assert_close(F.mse_loss(forward.forecast, future), real_loss(net, past, future))
    for parameter, own in zip(net.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(parameter.grad, own.grad, rtol=1e-10, atol=1e-14)


def test_the_gradient_of_the_product_is_its_finite_difference(values):
    """In the encoder itself W₁ ← W₁ + W_V⁻¹ ε adds ε to the product."""
    net, _, forward, past, future = first_step(values)
    move = torch.randn_like(forward.V) * 1e-6
    block = net.block

    def shifted(sign):
        moved = deepcopy(net)
        step = torch.linalg.solve(block.value.weight.T, move)  # W_V step = move
        moved.block.ffn1.weight.data += sign * step.T
        return real_loss(moved, past, future)

    slope = (shifted(1) - shifted(-1)).detach() / 2
    assert float(slope) == pytest.approx(float((forward.V.grad * move).sum()), rel=1e-5)


def test_on_the_current_graph_a_gcn_has_the_transformers_gradients(result):
    for name in ("value", "output"):
        assert max(result["difference"][name]) < 1e-12
        assert min(result["cosine"][name]["current"]) > 1 - 1e-12


def test_other_graphs_have_other_gradients(result):
    for name in ("value", "output"):
        cosines = result["cosine"][name]
        assert cosines["initial"][0] == pytest.approx(1)  # before any training
        assert cosines["initial"][-1] < 1 - 1e-6
        assert all(number < 1 - 1e-6 for number in cosines["mean"] + cosines["lag"])


def test_the_gradients_of_a_gcn_are_those_of_its_formula(values):
    net, gcn, forward, _, future = first_step(values)
    graph = backward.lag_graph(12)
    V = forward.V.detach().requires_grad_()
    W_2 = net.block.ffn2.weight.detach().requires_grad_()
    hidden = torch.relu(graph @ forward.X.detach() @ V)
    F.mse_loss(net.read(hidden @ W_2.T), future).backward()
    dV, dW_2 = backward.gcn_gradients(net, gcn, forward, graph, future)
    torch.testing.assert_close(dV, V.grad)
    torch.testing.assert_close(dW_2, W_2.grad)


def test_a_node_of_the_lag_graph_sees_the_last_steps():
    graph = backward.lag_graph(5, lags=2)
    expected = torch.eye(5) / 2 + torch.eye(5).roll(1, 0).tril() / 2
    expected[0, 0] = 1
    assert torch.equal(graph, expected.double())


def test_updates_are_those_of_the_optimisers(result, values):
    """Repeat the first step with copies of the weights and torch's own optimisers."""
    net, _, forward, _, _ = first_step(values)
    for name, optimiser in (("sgd", torch.optim.SGD), ("adamw", torch.optim.AdamW)):
        value, ffn1 = (
            torch.nn.Parameter(linear.weight.detach().clone())
            for linear in (net.block.value, net.block.ffn1)
        )
        merged = torch.nn.Parameter(forward.V.detach().clone())
        value.grad, ffn1.grad = net.block.value.weight.grad, net.block.ffn1.weight.grad
        merged.grad = forward.V.grad
        old = value.detach().clone(), ffn1.detach().clone(), merged.detach().clone()
        optimiser([value, ffn1, merged], lr=backward.LEARNING_RATE).step()
        dv, d1 = value - old[0], ffn1 - old[1]
        move = (d1 @ old[0] + old[1] @ dv + d1 @ dv).T
        expected = cosine(move.detach(), merged.detach() - old[2])
        assert result["update"][name][0] == pytest.approx(expected, abs=1e-6)
        assert 0 < expected < 0.99


def test_plain_descent_on_the_factors_is_a_preconditioned_step(result, values):
    """W_V W₁ moves along g W₁ᵀW₁ + W_V W_Vᵀ g (theory, E15), up to η."""
    net, _, forward, _, _ = first_step(values)
    block = net.block.requires_grad_(False)
    g, W_V, W_1 = forward.V.grad, block.value.weight.T, block.ffn1.weight.T
    expected = cosine(g @ W_1.T @ W_1 + W_V @ W_V.T @ g, g)
    assert result["update"]["sgd"][0] == pytest.approx(expected, abs=1e-4)


def test_the_share_of_attention_is_the_share_of_its_gradients(result, values):
    net, *_ = first_step(values)
    norms = {name: float(p.grad.norm()) for name, p in net.named_parameters()}
    own = [n for name, n in norms.items() if "query" in name or "key" in name]
    assert len(own) == 2
    expected = (sum(n**2 for n in own) / sum(n**2 for n in norms.values())) ** 0.5
    assert result["attention_share"][0] == pytest.approx(expected)


def test_the_printed_formulas_equal_those_of_the_theory():
    """The theory has both for one output per node, f = σ(A X V) w."""
    X, W_Q, W_K, V, w = (
        torch.randn(shape, dtype=torch.float64) for shape in ((7, 5), (5, 3), (5, 3), (5, 4), (4,))
    )
    c = torch.randn(7, dtype=torch.float64)  # the loss is Σ cⱼ fⱼ
    net = models.Transformer(X, W_Q, W_K, V, w, models.GELU, scale=5**-0.5)
    U = net.attention @ X @ V
    gains = (c[:, None] * models.GELU.slope(U) * w) @ (X @ V).T
    batch = Attention(X[None], (X @ W_Q)[None], (X @ W_K)[None], gains[None], net.scale)
    expected = [
        torch.einsum("j,jdp->dp", c, equation(net))
        for equation in (printed.eq8_query_weights, printed.eq9_key_weights)
    ]
    torch.testing.assert_close(list(backward.printed_gradients(batch)), expected)


def test_the_exact_formulas_equal_autograd(values):
    net, _, forward, _, _ = first_step(values)
    gains = forward.U.grad @ (forward.X @ forward.V).mT
    at = Attention(forward.X, forward.Q, forward.K, gains, 8**-0.5)
    dQ, dK = backward.exact_gradients(at)
    torch.testing.assert_close(dQ.T, net.block.query.weight.grad)
    torch.testing.assert_close(dK.T, net.block.key.weight.grad)


def test_the_loss_falls_and_the_first_and_last_steps_are_measured(result):
    assert result["steps"][0] == 1
    assert result["steps"][-1] == 60
    assert result["steps"] == sorted(set(result["steps"]))
    assert sum(result["loss"][-5:]) < 0.95 * sum(result["loss"][:5])


def test_the_result_is_json_and_depends_on_the_seed_alone(values):
    torch.manual_seed(1)
    state = torch.get_rng_state()
    once, again = (measure(values, steps=4, seed=5, **SMALL) for _ in range(2))
    assert torch.equal(torch.get_rng_state(), state)
    assert json.loads(json.dumps(once, allow_nan=False)) == again
    assert measure(values, steps=4, seed=6, **SMALL)["loss"] != once["loss"]
    assert once["settings"]["steps"] == 4
    lengths = {len(once[name]) for name in ("steps", "loss", "attention_share")}
    lengths |= {len(series) for series in once["cosine"]["value"].values()}
    assert lengths == {4}


def test_too_few_rows_or_steps_are_refused(values):
    with pytest.raises(FighterError, match=r"10 rows.* 17") as error:
        measure(values[:10], steps=5, **SMALL)
    assert error.value.argument == "values"
    with pytest.raises(FighterError) as error:
        measure(values, steps=0, **SMALL)
    assert error.value.argument == "steps"
