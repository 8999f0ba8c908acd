"""New snapshots of layout sfc-1: what an operation changes, as a new root and what that lists.

Start with writer.py, which commit/snapshot_writer.py chooses.
"""
