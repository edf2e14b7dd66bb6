"""A synthetic power grid: the hourly load of several zones, with known links between them."""

from dataclasses import dataclass
from typing import Any, Literal

import narwhals as nw
import numpy as np

from ...errors import check_count
from ..files import import_pandas

_NAMES = ("north", "south", "east", "west", "coast", "valley", "hills", "harbour", "plain", "lakes")
_PERSISTENCE = 0.4  # autocorrelation of a zone's own component from hour to hour
_LONGEST_LAG = 12
_WARM_UP = 200


@dataclass(frozen=True)
class Link:
    """``target`` follows ``source`` by ``lag`` hours."""

    source: str
    target: str
    lag: int
    weight: float  # share of the variance of the target's hourly innovations due to the source


@dataclass(frozen=True, eq=False)
class GridLoad:
    """Hourly load (MW) and temperature (°C) of N zones, and the links between them."""

    zones: tuple[str, ...]
    times: np.ndarray  # datetime64[us] [T]
    load: np.ndarray  # float64 [T, N]
    temperature: np.ndarray  # float64 [T, N]
    links: tuple[Link, ...]

    def columns(self) -> dict[str, np.ndarray]:
        """Return the columns of a long table: ``unique_id, ds, y, temperature``."""
        return {
            "unique_id": np.repeat(np.array(self.zones), len(self.times)),
            "ds": np.tile(self.times, len(self.zones)),
            "y": self.load.T.reshape(-1),
            "temperature": self.temperature.T.reshape(-1),
        }

    def frame(self, backend: Literal["pandas", "polars", "pyarrow"] = "pandas") -> Any:
        """Return a long table of pandas, polars or pyarrow."""
        if backend == "pandas":
            import_pandas()  # raises an error that names the extra
        columns = {
            name: nw.new_series(name, values.tolist(), nw.String(), backend=backend)
            if name == "unique_id"
            else nw.Series.from_numpy(name, values, backend=backend)
            for name, values in self.columns().items()
        }
        return nw.from_dict(columns).to_native()


def grid_load(hours: int = 24 * 7 * 26, zones: int = 6, seed: int = 0) -> GridLoad:
    """Generate the load of ``zones`` zones for ``hours`` hours from 2024-01-01 on.

    A zone's load has a daily and a weekly cycle, a response to its temperature, and an own
    component. The own component of each zone but the first follows that of another zone by a few
    hours; these links form a tree. The same seed gives the same numbers on every machine.

    Args:
        hours: number of hours (default: 26 weeks).
        zones: number of zones (default: 6).
        seed: seed of the random numbers (default: 0).
    """
    check_count("hours", hours)
    check_count("zones", zones)
    draw = np.random.Generator(np.random.PCG64(seed))
    names = _NAMES[:zones] + tuple(f"zone_{i}" for i in range(len(_NAMES), zones))
    order = np.argsort(draw.random(zones))
    links = []
    for place, target in enumerate(order[1:], start=1):
        source = order[int(draw.random() * place)]
        lag = 1 + int(draw.random() * _LONGEST_LAG)
        weight = round(0.45 + 0.15 * draw.random(), 3)
        links.append(Link(names[source], names[target], lag, weight))
    own = _own_components(draw, names, links, hours)

    hour = np.arange(hours)[:, None]
    day, week, year = (2 * np.pi * hour / period for period in (24, 168, 8766))
    weather = _smooth(_normal(draw, hours, 1), 0.99)
    weather = weather + 0.4 * _smooth(_normal(draw, hours, zones), 0.97)
    temperature = 10 - 9 * np.cos(year) - 3.5 * np.cos(day - 0.9) + 4 * weather
    level = 900 + 4000 * draw.random(zones)
    shift, morning = 0.6 * draw.random(zones) - 0.3, 0.06 + 0.06 * draw.random(zones)
    daily = -0.16 * np.cos(day - 0.7 + shift) - morning * np.cos(2 * day - 1.2 + shift)
    weekend = -0.08 * (hour // 24 % 7 >= 5)
    response = 0.0006 * (temperature - 16) ** 2  # heating below, cooling above
    load = level * (1 + daily + weekend + 0.02 * np.sin(week) + response + 0.05 * own)
    times = np.datetime64("2024-01-01", "us") + np.arange(hours) * np.timedelta64(3600, "s")
    # Rounding hides differences between machines in the last bits.
    return GridLoad(names, times, load.round(1), temperature.round(2), tuple(links))


def _own_components(
    draw: np.random.Generator, names: tuple[str, ...], links: list[Link], hours: int
) -> np.ndarray:
    """Simulate the own component of each zone, of variance about one: ``[hours, zones]``."""
    column = {name: i for i, name in enumerate(names)}
    weight, lag, source = np.zeros(len(names)), np.ones(len(names), int), np.arange(len(names))
    for link in links:
        i = column[link.target]
        weight[i], lag[i], source[i] = link.weight, link.lag, column[link.source]
    noise = np.sqrt(1 - weight) * _normal(draw, hours + _WARM_UP, len(names))
    own = np.zeros_like(noise)
    fresh = np.sqrt(1 - _PERSISTENCE**2)
    for t in range(_LONGEST_LAG, len(own)):
        innovation = np.sqrt(weight) * own[t - lag, source] + noise[t]
        own[t] = _PERSISTENCE * own[t - 1] + fresh * innovation
    return own[_WARM_UP:]


def _smooth(noise: np.ndarray, persistence: float) -> np.ndarray:
    """Turn white noise into a slow process around zero, of variance about one."""
    walk = np.zeros_like(noise)
    walk[0] = noise[0]
    for t in range(1, len(noise)):
        walk[t] = persistence * walk[t - 1] + np.sqrt(1 - persistence**2) * noise[t]
    return walk


def _normal(draw: np.random.Generator, rows: int, columns: int) -> np.ndarray:
    """Draw by Box and Muller from uniform numbers, the same in every version of numpy."""
    u, v = draw.random((2, rows, columns))
    return np.sqrt(-2 * np.log(1 - u)) * np.cos(2 * np.pi * v)
