"""Rank models on the same windows of the same data."""
