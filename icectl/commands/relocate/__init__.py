"""`icectl relocate`: the metadata of a moved or copied table, for its new place."""
