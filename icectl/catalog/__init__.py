"""Which metadata file is current, and replacing it.

May import storage, codec and spec. Start at protocol.py, then files.py.
"""
