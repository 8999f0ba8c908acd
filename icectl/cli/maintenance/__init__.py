"""Maintaining many tables: the policy, finding tables, one step on one table, steps at a time.

The course that puts them together is courses/maintain.py.
"""
