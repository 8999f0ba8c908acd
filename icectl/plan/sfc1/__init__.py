"""Decisions that only layout sfc-1 asks for: which leaves are written anew, which rules hold.

Start with rewrite_manifests.py.
"""
