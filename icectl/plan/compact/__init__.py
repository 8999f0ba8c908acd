"""The choice of what a compaction rewrites, and into what: pure.

Start at groups.py.
"""
