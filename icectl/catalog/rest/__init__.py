"""Tables of servers that speak the Iceberg REST protocol.

Start at warehouse.py, then served.py; client.py is how the server is talked to.
"""
