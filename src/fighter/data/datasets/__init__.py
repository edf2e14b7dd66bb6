"""Known data sets: the catalogue, downloads, generated tables."""
