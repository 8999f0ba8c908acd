"""Decisions: pure functions from facts to plans and findings, one module a command.

May import entries and spec; no I/O, no clock, no randomness. Start at model.py.
"""
