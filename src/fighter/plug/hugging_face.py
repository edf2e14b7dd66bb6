"""The self-attention of Hugging Face transformers with further hops.

Modules call the attention function that their config names, with queries, keys and values as they
are (rotated, grouped, from the cache). A module with further hops has a config that names the
function of this file, which calls the original function once per hop, with other values.
"""

import sys
from functools import cache
from inspect import signature, unwrap
from typing import Any

from torch import Tensor, nn
from transformers import AttentionInterface, PretrainedConfig

from ..errors import FighterError
from ..nn.further import FurtherHops
from .cache import Past

NAME = "fighter_multi_hop"  # of the attention function, as transformers registers it
VALUES = ("value", "v_proj", "v_lin")  # names of the projection to values
Result = tuple[Tensor, Tensor | None]


class HopConfig:
    """The config of one attention module, which differs from the model's in the function named."""

    _attn_implementation = NAME

    def __init__(self, config: Any):
        self.config = config

    def __getattr__(self, name: str) -> Any:
        if name == "config" or name.startswith("__"):  # while it is copied or unpickled
            raise AttributeError(name)
        return getattr(self.config, name)


class Ungrouped:
    """A module whose keys and values have been repeated, one for each head."""

    num_key_value_groups = 1

    def __init__(self, module: nn.Module):
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


def multi_hop_attention(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    further: tuple[Tensor, Any] | None = None,
    **options: Any,
) -> Result:
    """Attend over several hops; arguments and results are those of transformers.

    ``further`` holds the input of the module and the cache, from :func:`_pass_input`.
    """
    if further is None:
        reason = f"{type(module).__name__} did not pass its input on to its attention function"
        raise FighterError(f"{reason}; leave it out with where=", argument="model")
    states, stored = further
    function, hops = original_function(module), module.hops
    if hops.groups > 1:
        key, value = (x.repeat_interleave(hops.groups, 1) for x in (key, value))
        module = Ungrouped(module)
    weights: list[Tensor | None] = []

    def hop(b: Tensor) -> Tensor:
        y, graph = function(module, query, key, b, attention_mask, **options)
        weights[:] = [graph]
        return y.transpose(1, 2)

    new, past = query.shape[2], None
    if stored is not None and hops.kappa > 2:
        past = Past(stored, module.layer_idx, new, len(hops.powers))
        value = value[:, :, -new:]
    elif stored is None and key.shape[2] != new:
        reason = f"{key.shape[2]} keys for {new} queries: A is not square, so it has no powers"
        raise FighterError(f"{reason}; leave cross-attention out with where=", argument="model")
    y = hops(hop, states, value, past)
    return y.transpose(1, 2).contiguous(), weights[0]


def original_function(module: Any) -> Any:
    """Return the attention function that the model's config names."""
    room = _room(type(module))
    name = module.config.config._attn_implementation
    return room.ALL_ATTENTION_FUNCTIONS.get_interface(name, room.eager_attention_forward)


def _room(kind: type) -> Any:
    """Return the module that defines a class of attention, which holds its eager function."""
    for base in kind.__mro__:
        room = sys.modules.get(base.__module__)
        if hasattr(room, "eager_attention_forward") and hasattr(room, "ALL_ATTENTION_FUNCTIONS"):
            return room
    return None


@cache
def _parameters(kind: type) -> tuple[str, ...]:
    return tuple(signature(unwrap(kind.forward)).parameters)[1:]


def _pass_input(module: Any, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
    """Add the module's input and the cache to the options that reach the attention function."""
    given = dict(zip(_parameters(type(module)), args, strict=False)) | kwargs
    for other in ("encoder_hidden_states", "key_value_states"):
        if given.get(other) is not None:
            reason = "attends to another sequence, so A has no powers; leave it out with where="
            raise FighterError(f"{type(module).__name__} {reason}", argument=other)
    return args, kwargs | {"further": (given["hidden_states"], given.get("past_key_values"))}


def is_attention(module: nn.Module) -> bool:
    """Return whether a module calls the attention function that its config names."""
    config = getattr(module, "config", None)
    if isinstance(config, HopConfig):
        return True
    if not isinstance(config, PretrainedConfig) or _room(type(module)) is None:
        return False
    names = unwrap(type(module).forward).__code__.co_names
    passes_on = "ALL_ATTENTION_FUNCTIONS" in names and "kwargs" in _parameters(type(module))
    return passes_on and value_widths(module) is not None


def is_self_attention(name: str, module: nn.Module, parent: nn.Module | None) -> bool:
    """Return whether a module attends to its own input, as far as its names say."""
    del parent
    place = name.rpartition(".")[2]
    return not (
        getattr(module, "is_cross_attention", False)
        or "Cross" in type(module).__name__
        or "cross" in place
        or place.startswith("encoder_attn")
    )


def value_widths(module: Any) -> tuple[int, int] | None:
    """Return the widths of input and values of an attention, or None if they are not known."""
    for name in VALUES:
        projection = getattr(module, name, None)
        if isinstance(projection, nn.Linear):
            return projection.in_features, projection.out_features
    joint = getattr(module, "c_attn", None)  # GPT-2: queries, keys and values at once
    if joint is not None and hasattr(joint, "weight") and joint.weight.ndim == 2:
        width, columns = joint.weight.shape
        return width, columns // 3
    return None


def refusal(module: Any) -> str | None:
    """Return why a module cannot have further hops, or None."""
    if hasattr(module, "hops"):
        return f"{type(module).__name__} has an attribute hops of its own"
    if getattr(module, "reorder_and_upcast_attn", False):
        return "reorder_and_upcast_attn goes past the attention function; set it to False"
    return None


def plug(module: Any, kappa: int) -> None:
    """Give an attention further hops, in place."""
    AttentionInterface.register(NAME, multi_hop_attention)
    width, value_width = value_widths(module)  # pyright: ignore[reportGeneralTypeIssues]
    head_width = getattr(module, "head_dim", None) or module.attention_head_size
    groups = getattr(module, "num_key_value_groups", 1)
    heads = value_width // head_width
    hops = FurtherHops(width, value_width, kappa=kappa, heads=heads, groups=groups)
    module.hops = hops.to(next(module.parameters()))
    module.config = HopConfig(module.config)
    module.hops.handle = module.register_forward_pre_hook(_pass_input, with_kwargs=True)


def unplug(module: Any) -> None:
    """Take the further hops away, in place."""
    module.hops.handle.remove()
    module.config = module.config.config
    del module.hops
