"""What a compaction rewrites, and into what: pure.

Start at groups.py.
"""
