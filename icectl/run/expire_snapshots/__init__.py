"""Running an expiry.

Start at expire_snapshots.py.
"""
