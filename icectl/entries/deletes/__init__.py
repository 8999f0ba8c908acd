"""Which deletes apply to which data files.

Start at apply.py.
"""
