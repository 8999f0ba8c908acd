"""Partitions of files: tuples as keys, transforms over columns, order.

Start at key.py.
"""
