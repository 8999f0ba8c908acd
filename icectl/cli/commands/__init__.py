"""One module a command: flags to options, run, report. Start at inspect.py."""
