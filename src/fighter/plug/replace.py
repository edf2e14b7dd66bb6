"""Find the self-attention of a model, give it further hops, and take them away again."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from types import ModuleType
from typing import TypeVar, cast

import torch
from torch import Tensor, nn

from ..errors import FighterError, check_count, needs_package
from ..nn.further import FurtherHops
from . import torch_attention

Model = TypeVar("Model", bound=nn.Module)
Where = str | Sequence[str] | Callable[[str], bool] | None


def replace_attention(model: Model, kappa: int = 3, where: Where = None) -> Model:
    """Give the self-attention of a model further hops, in place, and return the model.

    Each head's A V becomes A V + A² X W₂ + … + A^(κ-1) X W_(κ-1), through the same output
    projection, where X is the input of the attention and every W is new. The W start at zero, so
    the model computes what it did before until it is trained. Old weights keep their names, and
    the new ones are called ``….hops.2.weight``, ``….hops.3.weight``, ….

    Example:
        >>> import torch
        >>> from fighter.plug import replace_attention
        >>> layer = torch.nn.TransformerEncoderLayer(16, 4, batch_first=True)
        >>> _ = replace_attention(layer, kappa=4)
        >>> [name for name in layer.state_dict() if "hops" in name]
        ['self_attn.hops.2.weight', 'self_attn.hops.3.weight']

    Args:
        model: a module with ``nn.MultiheadAttention`` inside, such as ``nn.TransformerEncoder``, or
            a model of Hugging Face transformers, such as BERT, ViT, GPT-2 or Llama. Attention to
            another sequence stays as it is.
        kappa: number of powers κ of A, counted from 0: 3 adds A², 4 adds A² and A³ (default: 3).
        where: which attentions to change: a name or a pattern such as ``"*.layers.1.*"``, several
            of them, or a function of the name (default: all).

    Raises:
        FighterError: there is no attention to change, or one of them cannot have further hops.
    """
    check_count("kappa", kappa, least=2)
    found = dict(self_attentions(model))
    chosen = {name: module for name, module in found.items() if _matches(name, where)}
    if not chosen:
        raise FighterError(_nothing_found(found, where), argument="where", value=where)
    for name, module in chosen.items():
        if isinstance(getattr(module, "hops", None), FurtherHops):
            reason = f"{name!r} has further hops already: call restore_attention(model) first"
            raise FighterError(reason, argument="model")
        if reason := _adapter(module).refusal(module):
            raise FighterError(f"{name!r}: {reason}; leave it out with where=", argument="model")
    for module in chosen.values():
        _adapter(module).plug(module, kappa)
        cast(FurtherHops, module.hops).train(module.training)
    torch_attention.stop_nesting(model)
    return model


def restore_attention(model: Model) -> Model:
    """Take the further hops of a model away, in place, and return the model.

    The original weights stay as they are, trained or not; the weights of the hops are dropped.
    """
    for module in list(plugged(model).values()):
        _adapter(module).unplug(module)
    torch_attention.allow_nesting(model)
    return model


def hop_weights(model: nn.Module) -> dict[str, Tensor]:
    """Return the weights of the further hops by their names in ``model.state_dict()``."""
    names = [f"{name}.hops." if name else "hops." for name in plugged(model)]
    return {
        name: weight
        for name, weight in model.state_dict().items()
        if any(name.startswith(prefix) for prefix in names)
    }


def load_hop_weights(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Load the weights of the further hops from a state dict, which may hold other weights too.

    Args:
        model: a model after :func:`replace_attention`.
        weights: weights by name, as in :func:`hop_weights` or ``model.state_dict()``.

    Raises:
        FighterError: weights are missing, are more than the model has, or have other shapes.
    """
    own = hop_weights(model)
    given = {name: weight for name, weight in weights.items() if name in own}
    known = model.state_dict().keys()
    more = [name for name in weights if ".hops." in f".{name}" and name not in known]
    missing = [name for name in own if name not in given]
    if missing or more:
        kind, names = ("has no", missing) if missing else ("has more than the model:", more)
        remedy = "call replace_attention with the kappa and where= of the model that was saved"
        reason = f"{kind} {names[0]!r} ({len(names)} such names); {remedy}"
        raise FighterError(reason, argument="weights")
    for name, weight in given.items():
        if weight.shape != own[name].shape:
            shapes = f"is {[*weight.shape]}, but the model needs {[*own[name].shape]}"
            raise FighterError(f"{name!r} {shapes}", argument="weights")
    with torch.no_grad():
        for name, weight in given.items():
            own[name].copy_(weight)


def plugged(model: nn.Module) -> dict[str, nn.Module]:
    """Return the attentions that have further hops, by name."""
    return {
        name: module
        for name, module in model.named_modules()
        if isinstance(getattr(module, "hops", None), FurtherHops) and _find_adapter(module)
    }


def self_attentions(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Yield the self-attentions of a model with their names."""
    if not isinstance(model, nn.Module):
        raise FighterError("needs a torch.nn.Module", argument="model", value=model)
    modules = dict(model.named_modules())
    for name, module in modules.items():
        parent = modules.get(name.rpartition(".")[0]) if name else None
        adapter = _find_adapter(module)
        if adapter is not None and adapter.is_self_attention(name, module, parent):
            yield name, module


def _find_adapter(module: nn.Module) -> ModuleType | None:
    """Return the module of this package that handles a kind of attention, or None."""
    if torch_attention.is_attention(module):
        return torch_attention
    if _is_of_transformers(getattr(module, "config", None)):
        with needs_package("transformers>=5"):
            from . import hugging_face
        if hugging_face.is_attention(module):
            return hugging_face
    return None


def _is_of_transformers(config: object) -> bool:
    """Return whether a config is one of transformers, which is imported only if one is."""
    kind = type(config)
    names = (base.__module__ for base in (*kind.__mro__, type(getattr(config, "config", None))))
    return any(name.partition(".")[0] == "transformers" for name in names)


def _adapter(module: nn.Module) -> ModuleType:
    adapter = _find_adapter(module)
    if adapter is None:
        raise FighterError(f"{type(module).__name__} is no attention", argument="model")
    return adapter


def _matches(name: str, where: Where) -> bool:
    if where is None:
        return True
    if callable(where):
        return bool(where(name))
    patterns = [where] if isinstance(where, str) else where
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _nothing_found(found: Mapping[str, nn.Module], where: Where) -> str:
    if found:
        names = ", ".join(map(repr, list(found)[:4]))
        return f"matches no self-attention of the model, which has {len(found)}: {names}, …"
    return (
        "the model has no self-attention that is known: needs nn.MultiheadAttention, or attention "
        "of Hugging Face transformers that uses its attention interface and has a projection "
        "called value, v_proj, v_lin or c_attn"
    )
