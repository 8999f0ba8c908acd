"""Driving an operation: load, plan, commit, clean up.

May import commit and everything below it. Start at driver.py.
"""
