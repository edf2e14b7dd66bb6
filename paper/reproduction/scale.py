"""Sizes of the experiments: the full reproduction, and a small version for a quick look."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    """Sizes of every experiment; the defaults are those of the full reproduction.

    Args:
        seeds: seeds of every training.
        epochs: largest number of epochs of a forecasting run.
        patience: epochs without a better validation error after which a forecasting run stops.
        width: width of every network over time steps.
        heads: heads of every network over time steps.
        horizons: horizons of Table 1.
        kappas: κ of the sweep on Weather.
        rows: use only this many first rows of a data set (default: all).
        snapshots: epochs at which heat maps are taken.
        text_kappas: κ of the sweep on AG News.
        text_epochs: epochs of a text run, which does not stop early: its curves are shown.
        articles: number of training articles, and of test articles (default: all).
        backward_steps: steps of the run along which gradients are compared.
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
