"""The course of each command: options to a plan, question, run, outcome.

One module a command, imported once it runs: what commands say of themselves must not wait for it.
"""
