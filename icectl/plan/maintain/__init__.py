"""What a run over many tables decides: which tables, which steps, in which order: pure.

Start at needs.py.
"""
