"""A look at a table that may be maintained, and the mark that a search for orphans leaves.

Start at assess.py.
"""
