"""`icectl analyze`: statistics of columns and partitions, for query planners."""
