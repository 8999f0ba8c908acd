"""What is wrong with a table: checks of values, one module for each part of the metadata.

May be imported by `run` and `report`. Start at finding.py, then metadata.py.
"""
