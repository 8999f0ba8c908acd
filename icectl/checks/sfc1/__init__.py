"""Searches that only roots and leaves of the layout sfc-1 need.

Start at rows.py.
"""
