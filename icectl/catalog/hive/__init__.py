"""Tables in a Hive metastore; `warehouse` is where reading starts."""
