"""Freeze a network at one input, where it becomes an affine map with the same output.

Everything that multiplies the signal is held constant at its value there: the graph (softmax),
LayerNorm's 1/deviation, a window's deviation and the gate t(u) = (σ(u) - σ(0))/u of an activation.
The rest is affine in the input, so that the output can be split exactly over the input.
"""

import inspect
from collections.abc import Callable, Container
from functools import partial
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

Kind = Literal["attention", "norms", "gates"]
"""What a coefficient is: a graph or a choice, the scale of a norm, or the gate of an activation."""
KINDS: tuple[Kind, ...] = ("attention", "norms", "gates")


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
        function: a function of linear maps, norms, activations, gated linear units, softmax,
            attention (torch's too) and square roots, in evaluation mode.
        inputs: where to record the coefficients. The attribute ``output`` is the affine map's
            value there; gradients through it are those of the affine map.
    """

    def __init__(self, function: Callable[..., Tensor], *inputs: Any):
        super().__init__()
        self.function = function
        self._recorded: list[tuple[Kind, Tensor]] = []
        self._next: int | None = None  # None while recording
        with self:
            self.output = function(*inputs)

    def __call__(self, *inputs: Any) -> Tensor:
        """Apply the affine map."""
        self._next = 0
        with self:
            return self.function(*inputs)

    def mixed(self, other: "Frozen", kinds: Container[Kind], *inputs: Any) -> Tensor:
        """Apply the affine map with the coefficients of some kinds from another input."""
        own, self._recorded = (
            self._recorded,
            [
                b if a[0] in kinds else a
                for a, b in zip(self._recorded, other._recorded, strict=True)
            ],
        )
        try:
            return self(*inputs)
        finally:
            self._recorded = own

    def __torch_function__(
        self, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        """Intercept a call of torch and apply the rule for it, if there is one."""
        rule = partial(RULES[func], self, func) if func in RULES else func
        return rule(*args, **(kwargs or {}))

    def keep(self, kind: Kind, value: Callable[[], Tensor]) -> Tensor:
        """Return a coefficient: ``value()`` while recording, then the recorded number."""
        if self._next is None:
            with torch.no_grad():
                self._recorded.append((kind, value().detach()))
            return self._recorded[-1][1]
        self._next += 1
        return self._recorded[self._next - 1][1]


def _softmax(frozen: Frozen, func: Callable, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    return frozen.keep("attention", lambda: func(x, *args, **kwargs))


def _root(frozen: Frozen, func: Callable, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    return frozen.keep("norms", lambda: func(x, *args, **kwargs))


def _gate(frozen: Frozen, func: Callable, u: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Return t(u)·u + σ(0); where u = 0, any gate t gives the same."""
    kwargs.pop("inplace", None)  # u is needed again
    at_zero = func(torch.zeros_like(u), *args, **kwargs)

    def gate() -> Tensor:
        return torch.where(u == 0, 0.0, (func(u, *args, **kwargs) - at_zero) / u)

    return frozen.keep("gates", gate) * u + at_zero


def _glu(frozen: Frozen, _func: Callable, x: Tensor, dim: int = -1) -> Tensor:
    value, gate = x.chunk(2, dim)
    return value * frozen.keep("gates", lambda: gate.sigmoid())


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
    y = centred * _factor(frozen, centred, axes, eps)
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


def _factor(frozen: Frozen, x: Tensor, axes: Any, eps: float) -> Tensor:
    return frozen.keep("norms", lambda: (x.square().mean(axes, keepdim=True) + eps).rsqrt())


def _rms_norm(
    frozen: Frozen,
    _func: Callable,
    x: Tensor,
    normalized_shape: Any,
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:
    eps = torch.finfo(x.dtype).eps if eps is None else eps
    y = x * _factor(frozen, x, tuple(range(-len(normalized_shape), 0)), eps)
    return y if weight is None else y * weight


def _group_norm(
    frozen: Frozen,
    _func: Callable,
    x: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    groups = x.reshape(len(x), num_groups, -1)
    centred = groups - groups.mean(-1, keepdim=True)
    y = (centred * _factor(frozen, centred, -1, eps)).reshape(x.shape)
    channels = -1, *[1] * (x.ndim - 2)
    y = y if weight is None else y * weight.view(channels)
    return y if bias is None else y + bias.view(channels)


def _attention(
    frozen: Frozen, func: Callable, q: Tensor, k: Tensor, v: Tensor, *args: Any, **kwargs: Any
) -> Tensor:
    q, k = (frozen.keep("attention", lambda x=x: x) for x in (q, k))
    if isinstance(mask := kwargs.get("attn_mask"), Tensor):  # it may depend on the input too
        kwargs = {**kwargs, "attn_mask": frozen.keep("attention", lambda: mask)}
    return func(q, k, v, *args, **kwargs)


def _multi_head(
    frozen: Frozen, func: Callable, *args: Any, **kwargs: Any
) -> tuple[Tensor, Tensor | None]:
    """Apply torch's multi-head attention, into which a function mode does not see."""
    call = inspect.signature(func).bind(*args, **kwargs)
    call.apply_defaults()
    asked = call.arguments
    extra = ("bias_k", "bias_v", "static_k", "static_v")
    if asked["add_zero_attn"] or any(asked[name] is not None for name in extra):
        return func(*args, **kwargs)  # the parts will not add up, which is found out
    seen = {**asked, "need_weights": True, "average_attn_weights": False}
    weights = frozen.keep("attention", lambda: func(**seen)[1])  # [..., heads, targets, sources]
    own, bias = asked["v_proj_weight"], asked["in_proj_bias"]
    own = own if asked["use_separate_proj_weight"] else asked["in_proj_weight"].chunk(3)[2]
    v = F.linear(asked["value"], own, None if bias is None else bias.chunk(3)[2])
    heads = v.unflatten(-1, (asked["num_heads"], -1)).movedim(0, -2)
    y = (weights @ heads).movedim(-2, 0).flatten(-2)
    y = F.linear(y, asked["out_proj_weight"], asked["out_proj_bias"])
    if not asked["need_weights"]:
        return y, None
    return y, weights.mean(-3) if asked["average_attn_weights"] else weights


def _choice(frozen: Frozen, func: Callable, x: Tensor, *args: Any, **kwargs: Any) -> Any:
    """Keep the choice that was made at the recorded input."""
    chosen = func(x, *args, **kwargs)
    return type(chosen)(frozen.keep("attention", lambda part=part: part) for part in chosen)


def _pool(frozen: Frozen, _func: Callable, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Take the values at the places of the recorded maxima."""
    kwargs = {**kwargs, "return_indices": True}
    return x.gather(-1, frozen.keep("gates", lambda: F.max_pool1d(x, *args, **kwargs)[1]))


ELEMENTWISE = (
    F.gelu, F.relu, torch.relu, Tensor.relu, F.silu, F.elu, F.leaky_relu, F.softplus, F.mish,
    F.tanh, torch.tanh, Tensor.tanh, F.sigmoid, torch.sigmoid, Tensor.sigmoid, F.hardtanh,
    torch.sinh, Tensor.sinh, torch.asinh, Tensor.asinh, F.selu, F.celu, F.relu6, F.prelu,
    F.hardswish, F.hardsigmoid, F.hardshrink, F.softshrink, F.tanhshrink, F.softsign, F.logsigmoid,
)  # fmt: skip
RULES: dict[Callable, Callable[..., Any]] = {
    F.layer_norm: _layer_norm,
    F.rms_norm: _rms_norm,
    F.group_norm: _group_norm,
    F.glu: _glu,
    F.multi_head_attention_forward: _multi_head,
    F.max_pool1d: _pool,
    F.scaled_dot_product_attention: _attention,
    **dict.fromkeys((torch.topk, Tensor.topk), _choice),
    **dict.fromkeys((torch.softmax, Tensor.softmax, F.softmax), _softmax),
    **dict.fromkeys((torch.sqrt, Tensor.sqrt), _root),
    **dict.fromkeys(ELEMENTWISE, _gate),
}
