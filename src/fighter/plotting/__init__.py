"""Pictures of forecasts, graphs and hops."""
