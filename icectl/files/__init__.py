"""Bytes to values and back: metadata files, Avro, manifests, Puffin, Parquet, ORC.

Start at manifest/manifest.py.
"""
