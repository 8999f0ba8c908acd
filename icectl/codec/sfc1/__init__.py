"""Bytes of layout sfc-1: content entries in Parquet, and statistics by column and expression.

Start with manifest.py. May be imported by table/sfc1, commit/sfc1 and run/sfc1.
"""
