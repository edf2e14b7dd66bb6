"""Studies of the forecaster: ablations, a search of settings, small tables, faithfulness."""
