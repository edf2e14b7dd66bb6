"""The forecaster: from a table to a forecast."""
