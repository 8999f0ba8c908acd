"""Conditions on rows, and the files that may hold a row for which they are true.

Start at predicates.py.
"""
