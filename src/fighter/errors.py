"""The errors a user can meet. Every message names what came and what is needed."""


class FighterError(ValueError):
    """Fighter was given something it cannot work with."""
