"""A fitted forecaster as plain settings and named tensors, to be written and read back."""

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._storage import read_id, strip_prefix, table_library, to_tensors
from ..data import Frequency, Panel, Scaler, Scheme, TimeAxis
from ..models import MODELS, ModelConfig
from .autoconfig import Plan
from .config import Config, Frame, Training, as_list
from .fitted import Fitted, build_network
from .preprocessing import Preprocessing

_ARRAYS = ("values", "observed", "past", "future", "static", "ends")
_LISTS = ("past", "future", "missing_values", "columns", "drop")
_SCALERS = ("scaler", "past_scaler", "future_scaler")


def pack(fitted: Fitted) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return the config (fit for JSON) and the tensors of a fitted model."""
    preprocessing, context = fitted.preprocessing, fitted.context
    config = {
        "estimator": "Forecaster",
        "settings": _plain_settings(fitted.config),
        "plan": _plain(fitted.plan),
        "ids": list(preprocessing.ids),
        "scheme": asdict(preprocessing.scheme),
        "origin": preprocessing.origin,
        "start": int(context.times[0]),
        "covariates": {
            "past": context.past_names,
            "future": context.future_names,
            "static": context.static_names,
        },
        "table": table_library(context.like),
    }
    arrays = {name: np.ascontiguousarray(getattr(context, name)) for name in _ARRAYS}
    tensors = to_tensors("network", fitted.network.state_dict()) | to_tensors("context", arrays)
    scalers = (preprocessing.scaler, preprocessing.past, preprocessing.future)
    for name, scaler in zip(_SCALERS, scalers, strict=True):
        tensors |= to_tensors(name, scaler.state())
    if fitted.conformal_shifts is not None:
        tensors["conformal_shifts"] = fitted.conformal_shifts
    return config, tensors


def unpack(
    config: Mapping[str, Any], tensors: Mapping[str, Tensor], device: torch.device
) -> Fitted:
    """Rebuild a fitted model from what :func:`pack` returned."""
    if config["format"] == 1:
        config, tensors = upgrade(config, tensors)
    settings = dict(config["settings"])
    # Models of 0.1 had one id column, and no series columns in the scheme.
    columns = {"id_cols": (settings["id_col"],), "target_col": settings["target_col"]}
    scheme = Scheme(**_tuples(columns | config["scheme"]))
    ids = tuple(map(read_id, config["ids"]))
    scalers = [
        Scaler.from_state({k: v.numpy() for k, v in strip_prefix(name, tensors).items()})
        for name in _SCALERS
    ]
    plan = Plan(**_tuples(config["plan"]) | {"model": _read_model(config["plan"]["model"])})
    arrays: dict[str, Any] = {k: v.numpy() for k, v in strip_prefix("context", tensors).items()}
    freq = Frequency.parse(scheme.freq)
    covariates = {k: tuple(v) for k, v in config["covariates"].items()}
    context = Panel(
        ids,
        freq.range(config["start"], len(arrays["values"])),
        freq=freq,
        axis=TimeAxis(**scheme.axis),
        past_names=covariates["past"],
        future_names=covariates["future"],
        static_names=covariates["static"],
        static_categories=scheme.static_categories,
        id_cols=scheme.id_cols,
        target_col=scheme.target_col,
        series_cols=scheme.series_cols,
        like=config["table"],
        **arrays,
    )
    network = build_network(plan, context).to(device)
    network.load_state_dict(strip_prefix("network", tensors))
    settings |= {name: tuple(settings.get(name) or ()) for name in _LISTS}
    settings |= {
        "model": _read_model(settings["model"]),
        "frame": Frame(**settings["frame"]),
        "training": Training(**settings["training"]),
    }
    return Fitted(
        Config(**settings),
        plan,
        Preprocessing(ids, scheme, config["origin"], *scalers),
        network,
        tensors.get("conformal_shifts"),
        context,
        device,
        [],
    )


def upgrade(
    config: Mapping[str, Any], tensors: Mapping[str, Tensor]
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Convert a model of format 1, whose settings were flat and whose names were older."""
    old, plan = dict(config["settings"]), dict(config["plan"])
    options = plan.pop("network") | {"name": old["model"]}
    frame = {"cycle": "auto"} | _take(old, Frame, {"limits": "bounds"})
    training = _take(old, Training, {})
    known = {f.name for f in fields(MODELS[old["model"]])}
    own = {k: v for k, v in (old | (old.pop("options", None) or {})).items() if k in known}
    given = {k: v for k, v in own.items() if v is not None}
    settings = {k: v for k, v in old.items() if k in {f.name for f in fields(Config)}}
    settings |= {
        "model": {"name": old["model"], **given} if given else old["model"],
        "frame": frame,
        "training": training,
    }
    if "outside" in plan:
        plan["cycle_before_norm"] = plan.pop("outside")
    renamed = {"offsets": "conformal_shifts"} | {
        f"{name}.limits": f"{name}.bounds" for name in _SCALERS
    }
    return (
        {**config, "settings": settings, "plan": plan | {"model": options}},
        {renamed.get(name, name): tensor for name, tensor in tensors.items()},
    )


def _take(settings: dict[str, Any], kind: type, renamed: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings that are fields of a dataclass, under their present names."""
    names = {f.name for f in fields(kind)}
    present = {renamed.get(name, name): value for name, value in settings.items()}
    return {name: value for name, value in present.items() if name in names}


def _plain_settings(config: Config) -> dict[str, Any]:
    settings = {f.name: getattr(config, f.name) for f in fields(Config)}
    for name in ("level", "quantiles", *_LISTS):
        if settings[name] is not None:
            settings[name] = as_list(settings[name])
    if not isinstance(config.id_col, str):
        settings["id_col"] = list(config.id_col)
    return {name: _plain(value) for name, value in settings.items()}


def _plain(value: Any) -> Any:
    """Return dataclasses as dictionaries; a model's has its name in it."""
    if isinstance(value, ModelConfig):
        return {"name": value.name, **asdict(value)}
    if isinstance(value, Plan | Frame | Training):
        return {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
    return value


def _read_model(value: Any) -> Any:
    """Return a model's config from its dictionary; a name stays a name."""
    if isinstance(value, str):
        return value
    options = _tuples(value)
    return MODELS[options.pop("name")](**options)


def _tuples(mapping: Mapping[str, Any]) -> dict[str, Any]:
    """Return JSON's lists as the tuples they were."""
    return {k: tuple(v) if isinstance(v, list) else v for k, v in mapping.items()}
