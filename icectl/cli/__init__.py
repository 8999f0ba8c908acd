"""The command line around a command: options, settings, session, console and documents.

Start at app.py.
"""
