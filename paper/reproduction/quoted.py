"""Numbers that the paper reports, quoted as the paper's; they stand nowhere else in the code."""

FORECASTS: dict[tuple[str, int], dict[str, tuple[float, float]]] = {
    ("electricity", 96): {
        "Autoformer": (0.282, 0.370),
        "Informer": (0.301, 0.381),
        "Reformer": (0.293, 0.374),
        "Transformer": (0.276, 0.367),
        "Fighter κ=3": (0.029, 0.132),
    },
    ("electricity", 192): {
        "Autoformer": (0.301, 0.386),
        "Informer": (0.310, 0.389),
        "Reformer": (0.342, 0.404),
        "Transformer": (0.284, 0.372),
        "Fighter κ=3": (0.023, 0.120),
    },
    ("weather", 96): {
        "Autoformer": (0.676, 0.503),
        "Informer": (0.804, 0.654),
        "Reformer": (1.090, 0.816),
        "Transformer": (0.575, 0.556),
        "Fighter κ=3": (0.007, 0.052),
    },
    ("weather", 192): {
        "Autoformer": (1.393, 0.602),
        "Informer": (0.980, 0.769),
        "Reformer": (0.980, 0.769),
        "Transformer": (0.525, 0.511),
        "Fighter κ=3": (0.008, 0.057),
    },
}
"""MSE and MAE of the paper's Table 1, which it says are in standardised units."""

ACCURACY = {
    "Autoformer": 0.876,
    "Informer": 0.831,
    "Reformer": 0.820,
    "Transformer": 0.864,
    "Fighter κ=3": 0.898,
}
"""Accuracy on AG News: 90 % / 10 % of 120,000 articles, no validation set."""

FIGHTER = "Fighter κ=3"
BASELINES = tuple(name for name in ACCURACY if name != FIGHTER)
