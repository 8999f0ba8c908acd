"""Running the views of `inspect`.

Start at views.py.
"""
