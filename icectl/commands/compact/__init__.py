"""`icectl compact`: rewrite data files into ones of good size."""
