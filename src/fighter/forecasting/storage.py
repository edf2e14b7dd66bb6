"""A fitted forecaster as plain settings and named tensors, to be written and read back."""

import datetime as dt
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields, replace
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._storage import (
    check_finite,
    check_types,
    fits,
    read_id,
    rebuild,
    strip_prefix,
    table_library,
    to_tensors,
)
from ..data import Frequency, Panel, Scaler, Scheme, TimeAxis
from ..data.forecast_table import LIBRARIES, forecast_table
from ..data.frequency import season_lengths
from ..data.ragged import Ragged, Spans, ragged
from ..errors import FighterError
from ..models import MODELS, ModelConfig
from ..models.counts import SHAPES
from ..models.effects import Effects
from ..models.local import count_experts
from ..models.pretrained import PretrainedNet
from ..models.widths import FACTORS
from ..models.zero_shot import digest, network_options
from .autoconfig import Plan
from .blend import Blend
from .config import Config, Frame, Training, as_list
from .counts import Counts
from .covariates import count_known
from .fitted import Fitted
from .learn import build_network
from .preprocessing import Preprocessing, count_known_ahead

_ID = str | bool | int | float | dt.date
_ARRAYS = ("values", "observed", "past", "future", "static", "ends")
_LISTS = ("past", "future", "missing_values", "columns", "drop")
_SHARES = ("share", "zero_shot", "vector", "width_share")
_BLEND = (*_SHARES, "usual", "spread", "powers", "prior", "least")
_EFFECTS = ("weights", "centre", "span", "closed", "resting")
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
        "holidays": list(context.holidays),
        "table": table_library(context.like),
    }
    tuned = fitted.tuned
    if tuned is not None:
        config["tuned"] = network_options()
    elif fitted.blend is not None and fitted.blend.zero_shot.any():
        config["pretrained"] = digest()
    arrays = {name: getattr(context, name) for name in _ARRAYS}
    if isinstance(arrays["values"], Ragged):  # only the cells, and where they are
        spans, config["steps"] = arrays["values"].spans, context.length
        arrays["spans"] = np.stack([spans.begins, spans.counts])
        arrays |= {name: arrays[name].packed() for name in ("values", "observed")}
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    if context.weights is not None:
        arrays["weights"] = context.weights
    if context.at_least is not None:
        arrays["at_least"] = np.ascontiguousarray(context.at_least)
    tensors = to_tensors("network", fitted.network.state_dict()) | to_tensors("context", arrays)
    scalers = (preprocessing.scaler, preprocessing.past, preprocessing.future)
    for name, scaler in zip(_SCALERS, scalers, strict=True):
        tensors |= to_tensors(name, scaler.state())
    if preprocessing.naive_errors is not None:
        tensors["naive_errors"] = torch.from_numpy(preprocessing.naive_errors)
    if fitted.conformal_shifts is not None:
        tensors["conformal_shifts"] = fitted.conformal_shifts
    if tuned is not None:
        tensors |= to_tensors("tuned", tuned.state_dict())
    if fitted.blend is not None:
        parts = {name: getattr(fitted.blend, name) for name in _BLEND}
        if fitted.blend.mean_prior is not None:
            parts["mean_prior"] = fitted.blend.mean_prior
        if (counts := fitted.blend.counts) is not None:
            parts |= {"count_share": counts.share, "count_shape": counts.shape.float()}
        tensors |= to_tensors("blend", parts)
        if (effects := fitted.blend.effects) is not None:
            parts = {name: getattr(effects, name) for name in _EFFECTS}
            tensors |= to_tensors("effects", parts | {"log": torch.tensor(effects.log)})
    return config, tensors


def unpack(
    config: Mapping[str, Any], tensors: Mapping[str, Tensor], device: torch.device
) -> Fitted:
    """Rebuild a fitted model, on the CPU, from what :func:`pack` returned.

    ``device`` is where the network will be. Raises an exception of any type if a part does not fit
    the rest.
    """
    if config["format"] == 1:
        config, tensors = upgrade(config, tensors)
    if "pretrained" in config and config["pretrained"] != digest():
        raise FighterError(
            "the model was fitted with other weights of the pretrained network than this version "
            "of Fighter has: fit again, or load it with the version that saved it"
        )
    settings = _read_settings(config["settings"])
    plan = Plan(**_tuples(config["plan"]) | {"model": _read_model(config["plan"]["model"])})
    # Models of 0.1 had one id column, and no series columns in the scheme.
    columns = {"id_cols": (settings.id_col,), "target_col": settings.target_col}
    scheme = Scheme(**_tuples(columns | config["scheme"]))
    categories = {k: tuple(v) for k, v in scheme.static_categories.items()}
    scheme = replace(scheme, static_categories=categories)
    for part in (settings, settings.frame, settings.training, plan, plan.model, scheme):
        check_types(part)
    context = _read_context(config, tensors, scheme)
    scalers = [
        Scaler.from_state({k: v.numpy() for k, v in strip_prefix(name, tensors).items()})
        for name in _SCALERS
    ]
    naive = _optional_array("naive_errors", tensors, (2, context.n_series))
    preprocessing = Preprocessing(
        context.ids, scheme, config["origin"], *scalers, naive_errors=naive
    )
    weights, shifts = strip_prefix("network", tensors), tensors.get("conformal_shifts")
    check_finite(weights)
    _check_plan(plan, settings, context)
    _check_numbers(preprocessing, shifts, plan, context)
    network = rebuild(lambda: build_network(plan, context), vars(plan.model), weights)
    effects = _read_effects(strip_prefix("effects", tensors), context)
    blend = _read_blend(strip_prefix("blend", tensors), plan, context.n_series, effects)
    tuned = None
    if "tuned" in config:
        options, weights = config["tuned"], strip_prefix("tuned", tensors)
        check_finite(weights)
        tuned = rebuild(lambda: PretrainedNet(**options), options, weights)
        tuned.eval().requires_grad_(False)
    return Fitted(settings, plan, preprocessing, network, shifts, context, device, [], blend, tuned)


def _read_blend(
    tensors: Mapping[str, Tensor], plan: Plan, series: int, effects: Effects | None
) -> Blend | None:
    """Return how network and smoothing are mixed; models without smoothing have none."""
    if not plan.mixes:
        return None
    sizes = {
        **dict.fromkeys(_SHARES, (series,)),
        "usual": (3, series),
        "spread": (plan.horizon, len(plan.quantiles)),
        "powers": (FACTORS,),
        "prior": (count_experts(plan.seasons, plan.horizon),),
        "least": (2, len(plan.quantiles)),
    }
    optional = {
        "mean_prior": (count_experts(plan.seasons, plan.horizon, squared=True),),
        "count_share": (series,),
        "count_shape": (series,),
    }
    sizes |= {name: size for name, size in optional.items() if name in tensors}
    # Models may be older than these forecasts, and do not ask them.
    older = {name: torch.zeros(sizes[name]) for name in ("zero_shot", "vector", "least")}
    tensors = {**older, **tensors}
    for name, size in sizes.items():
        if tuple(tensors[name].shape) != size or tensors[name].dtype != torch.float32:
            raise ValueError(f"blend.{name} is not of size {size}")
    priors = [name for name in ("prior", "mean_prior") if name in tensors]
    check_finite({name: part for name, part in tensors.items() if name not in priors})
    if not all(tensors[name].isfinite().any() and (tensors[name] > 0).all() for name in priors):
        raise ValueError("a prior of the blend holds no number, or one that is not above 0")
    for name in (*_SHARES, "count_share"):
        if name in tensors and not ((tensors[name] >= 0) & (tensors[name] <= 1)).all():
            raise ValueError(f"blend.{name} is no share")
    if not (tensors["usual"] > 0).all() or min(plan.seasons, default=2) < 2:
        raise ValueError("blend.usual is not above 0, or a season is below 2 steps")
    counts = None
    if "count_share" in tensors:
        shape = tensors["count_shape"].long()
        if not ((shape >= 0) & (shape < len(SHAPES))).all() or "mean_prior" not in tensors:
            raise ValueError("blend.count_shape is none of the shapes, or there is no mean")
        counts = Counts(tensors["count_share"], shape, plan.quantiles)
    parts = {name: tensors[name] for name in _BLEND}
    return Blend(
        **parts,
        seasons=plan.seasons,
        effects=effects,
        mean_prior=tensors.get("mean_prior"),
        counts=counts,
        means=plan.point == "mean",
    )


def _read_effects(tensors: Mapping[str, Tensor], context: Panel) -> Effects | None:
    """Return the effects of covariates on smoothing; None if there are none."""
    if not tensors:
        return None
    series, count = context.n_series, count_known(context)
    weights, log = tensors["weights"], tensors["log"]
    sizes = {"weights": (series, count, *weights.shape[2:]), "centre": (series, count)}
    sizes |= {"span": (2, count), "closed": (count,)}
    for name, size in sizes.items():
        if tuple(tensors[name].shape) != size or tensors[name].dtype != torch.float64:
            raise ValueError(f"effects.{name} is not of size {size}")
    check_finite({name: part for name, part in tensors.items() if name != "closed"})
    resting = tensors["resting"]
    flags = resting.dtype == log.dtype == torch.bool and log.dim() == 0 and resting.dim() == 1
    if weights.dim() != 3 or not weights.shape[2] % 2 or not flags or not len(resting):
        raise ValueError("effects are of another kind")
    return Effects(**{name: tensors[name] for name in _EFFECTS}, log=bool(log))


def _optional_array(
    name: str, tensors: Mapping[str, Tensor], shape: tuple[int, ...]
) -> np.ndarray | None:
    """Return numbers of 0 or more that a model may lack."""
    if name not in tensors:
        return None
    array = tensors[name].numpy()
    fine = array.shape == shape and array.dtype == np.float64
    if not fine or not np.isfinite(array).all() or (array < 0).any():
        raise ValueError(f"{name} does not hold {shape} numbers of 0 or more")
    return array


def _read_context(
    config: Mapping[str, Any], tensors: Mapping[str, Tensor], scheme: Scheme
) -> Panel:
    ids = tuple(map(read_id, config["ids"]))
    arrays: dict[str, Any] = {name: tensors[f"context.{name}"].numpy() for name in _ARRAYS}
    if "context.spans" in tensors:
        begins, counts = tensors["context.spans"].numpy()
        spans = Spans.of(begins, begins + counts, config["steps"])
        inside = (begins >= 0) & (counts >= 0) & (begins + counts <= spans.length)
        for name in ("values", "observed"):
            if begins.dtype != np.int64 or not inside.all() or len(arrays[name]) != counts.sum():
                raise ValueError(f"{name} does not hold the rows of its series")
            arrays[name] = ragged(arrays[name], spans)
    covariates = {k: tuple(v) for k, v in config["covariates"].items()}
    axis, start = TimeAxis(**scheme.axis), config["start"]
    freq = Frequency.parse(scheme.freq).with_season(scheme.season or None)
    check_types(axis)
    steps, series = arrays["values"].shape
    shapes = {
        "values": (steps, series),
        "observed": (steps, series),
        "past": (steps, series, len(covariates["past"])),
        "future": (max(steps, len(arrays["future"])), series, len(covariates["future"])),
        "static": (series, arrays["static"].shape[-1]),
        "ends": (series,),
    }
    types = {"observed": np.bool_, "ends": np.int64}
    for name, shape in shapes.items():
        if arrays[name].shape != shape or arrays[name].dtype != types.get(name, np.float64):
            raise ValueError(f"{name} is {arrays[name].dtype} {arrays[name].shape}, not {shape}")
    if not isinstance(config["ids"], list) or not isinstance(config["table"], str):
        raise TypeError("ids or table is of another type")
    for name in ids:
        if name == () or not fits(name, _ID | tuple[_ID, ...]):
            raise TypeError(f"id {name!r:.60} is neither a text, a number nor a date")
        several = isinstance(name, tuple) and not scheme.series_cols  # labels may be tuples, too
        if (len(name) if several else 1) != len(scheme.id_cols):
            raise ValueError(f"id {name!r:.60} is not of the columns {scheme.id_cols}")
    holidays = tuple(config.get("holidays", ()))
    if not fits(holidays, tuple[str, ...]) or len(holidays) not in (0, series):
        raise TypeError("holidays are not the country of each series")
    if len(set(ids)) != series or len(ids) != series:
        raise ValueError(f"there are {len(set(ids))} ids of {series} series")
    if not ((arrays["ends"] >= 0) & (arrays["ends"] <= steps)).all():
        raise ValueError("a series ends outside the table")
    for name in ("values", "static"):
        if not np.isfinite(arrays[name]).all():
            raise ValueError(f"{name} holds numbers that are not finite")
    if "context.at_least" in tensors:
        arrays["at_least"] = bounds = tensors["context.at_least"].numpy()
        if bounds.shape != (steps, series) or bounds.dtype != np.float64 or np.isinf(bounds).any():
            raise ValueError("at_least does not hold a lower bound for each value")
    for name in ("past", "future"):  # NaN where they are not observed
        if np.isinf(arrays[name]).any():
            raise ValueError(f"{name} holds infinite numbers")
    times, table = freq.range(start, steps), config["table"]
    if table in LIBRARIES and find_spec(table):  # whether time stamps can be written
        forecast_table(table, ids[:1], times[-1:], {}, axis=axis, id_cols=scheme.id_cols)
    return Panel(
        ids,
        times,
        freq=freq,
        axis=axis,
        past_names=covariates["past"],
        future_names=covariates["future"],
        static_names=covariates["static"],
        static_categories=scheme.static_categories,
        id_cols=scheme.id_cols,
        target_col=scheme.target_col,
        series_cols=scheme.series_cols,
        snapped=scheme.snapped,
        holidays=holidays,
        weights=_optional_array("context.weights", tensors, (series,)),
        like=table,
        **arrays,
    )


def _check_plan(plan: Plan, settings: Config, context: Panel) -> None:
    """Raise ValueError unless the plan fits the settings and the table."""
    agree = {
        "horizon": plan.horizon == settings.horizon,
        "quantiles": plan.quantiles == settings.quantile_levels,
        "lookback": 1 <= plan.lookback <= context.length,
        "calendar": set(plan.calendar) <= set(range(len(context.freq.calendar_names))),
        "cycle": plan.cycle is None or plan.cycle >= 1,
        # A panel may have brought covariates that the settings do not name.
        "past_names": tuple(settings.past) in ((), context.past_names),
        "future_names": tuple(settings.future) in ((), context.future_names),
    }
    for name, fine in agree.items():
        if not fine:
            raise ValueError(f"{name} contradicts the settings or the saved table")


def _check_numbers(
    preprocessing: Preprocessing, shifts: Tensor | None, plan: Plan, context: Panel
) -> None:
    """Raise ValueError unless scales and shifts have their sizes and are finite."""
    series = context.n_series
    sizes = ((series,), (context.past.shape[2],), (count_known_ahead(context),))
    scalers = (preprocessing.scaler, preprocessing.past, preprocessing.future)
    for name, scaler, size in zip(_SCALERS, scalers, sizes, strict=True):
        fine = scaler.shift.shape == scaler.scale.shape == size
        finite = np.isfinite(scaler.shift).all() and np.isfinite(scaler.scale).all()
        if not fine or not finite or not (scaler.scale > 0).all():
            raise ValueError(f"{name} is not a scale of {size} columns")
        for kind in Scaler.BOUNDS:
            bounds = getattr(scaler, kind)
            if bounds is not None and bounds.shape != (2, *size):
                raise ValueError(f"{name} has {kind} of shape {bounds.shape}")
    if shifts is not None:
        check_finite({"conformal_shifts": shifts})
        if shifts.shape != (series, len(plan.quantiles)) or not shifts.is_floating_point():
            raise ValueError(f"conformal_shifts has shape {tuple(shifts.shape)}")
    preprocessing.start_step(context)


def _read_settings(plain: Mapping[str, Any]) -> Config:
    settings = dict(plain)
    settings |= {name: tuple(settings.get(name) or ()) for name in _LISTS}
    settings |= {
        "model": _read_model(settings["model"]),
        "frame": Frame(**settings["frame"]),
        "training": Training(**settings["training"]),
    }
    return Config(**settings)


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
    if config.season is not None:
        lengths = list(season_lengths(config.season))
        settings["season"] = lengths if isinstance(config.season, Iterable) else lengths[0]
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
