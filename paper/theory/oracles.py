"""Models drawn at random, and their gradients by autograd."""

from torch import Tensor
from torch.func import grad, jacrev

from . import models
from .models import Activation, Gcn, Layer, Transformer
from .record import Draw


def draw_gcn(
    draw: Draw, sigma: Activation, powers_1: tuple[int, ...], powers_2: tuple[int, ...]
) -> Gcn:
    """Draw a GCN on a random graph, which need not even be row-stochastic."""
    A = draw.weights(draw.nodes, draw.nodes)
    X = draw.features(draw.nodes, draw.width)
    W_1 = draw.weights(len(powers_1) * draw.width, draw.hidden)
    w = draw.features(len(powers_2) * draw.hidden)
    return Gcn(A, X, W_1, w, sigma, powers_1, powers_2)


def draw_transformer(draw: Draw, sigma: Activation) -> Transformer:
    """Draw a two-layer Transformer with the paper's scale d^{-1/2}."""
    X = draw.features(draw.nodes, draw.width)
    W_Q, W_K = (draw.weights(draw.width, draw.key) for _ in range(2))
    V = draw.weights(draw.width, draw.hidden)
    return Transformer(X, W_Q, W_K, V, draw.features(draw.hidden), sigma, draw.scale)


def draw_layer(draw: Draw, kappa: int, *, causal: bool) -> Layer:
    """Draw a Fighter layer, with or without a causal mask."""
    X = draw.features(draw.nodes, draw.width)
    W_Q, W_K = (draw.weights(draw.width, draw.key) for _ in range(2))
    mask = models.causal_mask(draw.nodes) if causal else None
    return Layer(X, W_Q, W_K, draw.weights(kappa, draw.width, draw.hidden), draw.scale, mask)


def gcn_jacobian(net: Gcn, name: str) -> Tensor:
    """Return ∂f/∂name of a GCN."""
    return jacrev(lambda value: models.gcn(net._replace(**{name: value})))(getattr(net, name))


def transformer_jacobian(net: Transformer, name: str) -> Tensor:
    """Return ∂f/∂name of a Transformer."""
    at = getattr(net, name)
    return jacrev(lambda value: models.transformer(net._replace(**{name: value})))(at)


def layer_gradient(layer: Layer, sigma: Activation, C: Tensor, name: str) -> Tensor:
    """Return ∂L/∂name of a Fighter layer for L = Σ C ∘ σ(Y)."""

    def loss(value: Tensor) -> Tensor:
        return (C * sigma.value(models.layer(layer._replace(**{name: value})))).sum()

    return grad(loss)(getattr(layer, name))


def layer_jacobian(layer: Layer, sigma: Activation, w: Tensor, name: str) -> Tensor:
    """Return ∂f/∂name of a Fighter layer for f = σ(Y) w."""

    def output(value: Tensor) -> Tensor:
        return sigma.value(models.layer(layer._replace(**{name: value}))) @ w

    return jacrev(output)(getattr(layer, name))
