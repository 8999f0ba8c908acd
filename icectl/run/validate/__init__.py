"""Running `validate`.

Start at validate.py.
"""
