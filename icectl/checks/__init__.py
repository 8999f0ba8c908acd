"""The rules of the format, looked for: pure.

searches/ finds entries that break a rule, whole columns at a time; the modules here say what is
found as findings. Start at finding.py, then metadata.py.
"""
