"""Avro files: blocks and their compression, schemas, and columns read out of records.

Start at container.py.
"""
