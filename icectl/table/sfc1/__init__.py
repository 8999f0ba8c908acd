"""Snapshots of layout sfc-1: their roots, leaves and delete vectors over leaves.

Start with reader.py, which table/snapshot_reader.py chooses.
"""
