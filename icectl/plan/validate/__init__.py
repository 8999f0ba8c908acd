"""The checks of `icectl validate`, one module for each thing that is checked.

May import entries, spec and plan/model.py. Start at check.py.
"""
