"""Running a compaction.

Start at compact.py.
"""
