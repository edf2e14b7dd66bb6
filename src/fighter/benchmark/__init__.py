"""Models ranked on the same windows of the same data."""
