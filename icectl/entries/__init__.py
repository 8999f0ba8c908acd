"""Manifest entries of every format version as one Arrow table.

May import spec. Start at schema.py for the columns, rows.py for the vocabulary.
"""
