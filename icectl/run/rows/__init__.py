"""Rows of a table changed and read by programs with Spark: appended, overwritten, deleted, loaded.

Only tables of layout sfc-1 are written: Iceberg's own Spark writes the others.
"""
