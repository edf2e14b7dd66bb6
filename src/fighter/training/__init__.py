"""Training on tensors: the loop, losses, checkpoints, more than one device, progress."""

from .inference import forecast, score
from .loop import Recipe, forget, train
from .parallel import World

__all__ = ["Recipe", "World", "forecast", "forget", "score", "train"]
