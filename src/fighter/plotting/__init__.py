"""Pictures, drawn with matplotlib from plain data."""
