"""Known data sets: the catalogue, downloads and synthetic tables."""
