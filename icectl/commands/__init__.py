"""The commands: one folder each, with its options, plan, run and report.

Start at change.py and expire_snapshots/run.py.
"""
