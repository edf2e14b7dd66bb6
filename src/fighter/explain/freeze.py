"""Freeze a network at one input, where it becomes an affine map with the same output.

Everything that multiplies the signal is held constant at its value there: the graph (softmax),
LayerNorm's 1/deviation, a window's deviation and the gate t(u) = (σ(u) - σ(0))/u of an activation.
The rest is affine in the input, so that the output can be split exactly over the input.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode


class Frozen(TorchFunctionMode):
    """Record the coefficients of a function at one input and reuse them at any other.

    Example:
        >>> import torch
        >>> from fighter.explain import Frozen
        >>> net = torch.nn.Sequential(torch.nn.LayerNorm(4), torch.nn.Linear(4, 4), torch.nn.GELU())
        >>> x = torch.randn(2, 4)
        >>> frozen = Frozen(net, x)
        >>> torch.allclose(frozen(x), net(x), atol=1e-6)
        True
        >>> zero = frozen(0 * x)
        >>> torch.allclose(frozen(3 * x) - zero, 3 * (frozen(x) - zero), atol=1e-5)
        True

    Args:
        function: a function of linear maps, LayerNorm, activations, softmax, attention and square
            roots, in evaluation mode.
        inputs: where to record the coefficients. The attribute ``output`` is the affine map's
            value there; gradients through it are those of the affine map.
    """

    def __init__(self, function: Callable[..., Tensor], *inputs: Any):
        super().__init__()
        self.function = function
        self._recorded: list[Tensor] = []
        self._next: int | None = None  # None while recording
        with self:
            self.output = function(*inputs)

    def __call__(self, *inputs: Any) -> Tensor:
        """Apply the affine map."""
        self._next = 0
        with self:
            return self.function(*inputs)

    def __torch_function__(
        self, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        """Intercept a call of torch and apply the rule for it, if there is one."""
        rule = partial(RULES[func], self, func) if func in RULES else func
        return rule(*args, **(kwargs or {}))

    def keep(self, value: Callable[[], Tensor]) -> Tensor:
        """Return a coefficient: ``value()`` while recording, then the recorded number."""
        if self._next is None:
            with torch.no_grad():
                self._recorded.append(value().detach())
            return self._recorded[-1]
        self._next += 1
        return self._recorded[self._next - 1]


def _constant(frozen: Frozen, func: Callable, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    return frozen.keep(lambda: func(x, *args, **kwargs))


def _gate(frozen: Frozen, func: Callable, u: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Return t(u)·u + σ(0); where u = 0, any gate t gives the same."""
    at_zero = func(torch.zeros_like(u), *args, **kwargs)

    def gate() -> Tensor:
        return torch.where(u == 0, 0.0, (func(u, *args, **kwargs) - at_zero) / u)

    return frozen.keep(gate) * u + at_zero


def _layer_norm(
    frozen: Frozen,
    _func: Callable,
    x: Tensor,
    normalized_shape: Any,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    axes = tuple(range(-len(normalized_shape), 0))
    centred = x - x.mean(axes, keepdim=True)  # linear, so it is not frozen
    factor = frozen.keep(lambda: (centred.square().mean(axes, keepdim=True) + eps).rsqrt())
    y = centred * factor
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


def _attention(
    frozen: Frozen, func: Callable, q: Tensor, k: Tensor, v: Tensor, *args: Any, **kwargs: Any
) -> Tensor:
    q, k = (frozen.keep(lambda x=x: x) for x in (q, k))
    if isinstance(mask := kwargs.get("attn_mask"), Tensor):  # it may depend on the input too
        kwargs = {**kwargs, "attn_mask": frozen.keep(lambda: mask)}
    return func(q, k, v, *args, **kwargs)


def _choice(frozen: Frozen, func: Callable, x: Tensor, *args: Any, **kwargs: Any) -> Any:
    """Keep the choice that was made at the recorded input."""
    chosen = func(x, *args, **kwargs)
    return type(chosen)(frozen.keep(lambda part=part: part) for part in chosen)


def _pool(frozen: Frozen, _func: Callable, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Take the values at the places of the recorded maxima."""
    kwargs = {**kwargs, "return_indices": True}
    return x.gather(-1, frozen.keep(lambda: F.max_pool1d(x, *args, **kwargs)[1]))


CONSTANTS = (torch.softmax, Tensor.softmax, F.softmax, torch.sqrt, Tensor.sqrt)
ELEMENTWISE = (
    F.gelu, F.relu, torch.relu, Tensor.relu, F.silu, F.elu, F.leaky_relu, F.softplus, F.mish,
    F.tanh, torch.tanh, Tensor.tanh, F.sigmoid, torch.sigmoid, Tensor.sigmoid, F.hardtanh,
    torch.sinh, Tensor.sinh, torch.asinh, Tensor.asinh,
)  # fmt: skip
RULES: dict[Callable, Callable[..., Any]] = {
    F.layer_norm: _layer_norm,
    F.max_pool1d: _pool,
    F.scaled_dot_product_attention: _attention,
    **dict.fromkeys((torch.topk, Tensor.topk), _choice),
    **dict.fromkeys(CONSTANTS, _constant),
    **dict.fromkeys(ELEMENTWISE, _gate),
}
