"""How much of the paper is run: all of it, or a small version for a look."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    """Sizes of every experiment; the defaults are the full reproduction.

    Args:
        seeds: of every training.
        epochs, patience: of a forecasting run; it stops early when validation no longer improves.
        width, heads: of every network over time steps.
        horizons: of Table 1.
        kappas: of the sweep on Weather.
        rows: the first rows of a data set only.
        snapshots: epochs at which heat maps are taken.
        text_kappas: of the sweep on AG News.
        text_epochs: of a text run, which is not stopped early: its curves are shown.
        articles: training articles.
        backward_steps: of the run along which gradients are compared.
    """

    seeds: tuple[int, ...] = (0, 1, 2)
    epochs: int = 25
    patience: int = 3
    width: int = 128
    heads: int = 8
    horizons: tuple[int, ...] = (96, 192)
    kappas: tuple[int, ...] = (1, 2, 3, 4, 5, 6, 7, 8)
    rows: int | None = None
    snapshots: tuple[int, ...] = (25, 50, 75, 100)
    text_kappas: tuple[int, ...] = (2, 3, 4, 6, 8)
    text_epochs: int = 8
    articles: int | None = None
    backward_steps: int = 3000


FULL = Scale()
QUICK = Scale(
    seeds=(0,),
    epochs=2,
    patience=2,
    width=16,
    heads=2,
    horizons=(96,),
    kappas=(1, 2, 3),
    rows=2500,
    snapshots=(1, 2),
    text_kappas=(2, 3),
    text_epochs=2,
    articles=1000,
    backward_steps=40,
)
