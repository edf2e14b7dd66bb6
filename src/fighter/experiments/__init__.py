"""The paper's tables and figures, made by this code."""
