"""Searches for entries that break a rule: whole columns at a time.

Start at entries.py.
"""
