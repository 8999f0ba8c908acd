"""Manifest entries of every format version as one Arrow table, and what is computed over it.

May import format. Start at rows.py: the columns and the vocabulary.
"""
