"""Tables in AWS Glue; `warehouse` is where reading starts."""
