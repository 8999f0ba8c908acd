"""Running a repair.

Start at repair.py.
"""
