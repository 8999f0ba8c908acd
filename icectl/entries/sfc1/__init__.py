"""Content entries of layout sfc-1 as Arrow tables: their columns, and what can be wrong with them.

Start with rows.py.
"""
