"""The upstream draft of version 4: snapshots written in its form, and roots of it read alone.

Start with export.py.
"""
