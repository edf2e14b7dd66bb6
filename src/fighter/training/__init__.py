"""Training on tensors: the loop, losses, calibration, checkpoints, processes, progress."""

from .inference import forecast, score
from .loop import Recipe, train
from .parallel import World

__all__ = ["Recipe", "World", "forecast", "score", "train"]
