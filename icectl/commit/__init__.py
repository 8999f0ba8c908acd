"""From a plan's changes to a new table version.

May import table and everything below it. Start at attempt.py.
"""
