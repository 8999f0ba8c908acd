"""Parquet files: schemas with field ids, footers, metrics, reading and writing of rows.

Start at schema.py.
"""
