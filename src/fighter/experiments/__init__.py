"""The paper's tables and figures, a leaderboard and ablations, made by this code."""
