"""Checks of snapshots of layout sfc-1, chosen by run/validate/validate.py.

Start with validate.py.
"""
