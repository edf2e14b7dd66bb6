"""From a table to a forecast: settings, plan, fitted model, forecast, scores, explanations."""
