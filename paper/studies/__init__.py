"""Studies of the forecaster: ablations, search, small tables, faithfulness."""
