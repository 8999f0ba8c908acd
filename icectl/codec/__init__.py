"""Bytes to values and back: metadata files, Avro, manifests, Puffin, Parquet footers.

May import entries and spec; knows no locations and no network. Start at manifest.py.
"""
