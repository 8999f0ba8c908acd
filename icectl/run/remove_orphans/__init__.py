"""Running a removal of orphans.

Start at remove_orphans.py.
"""
