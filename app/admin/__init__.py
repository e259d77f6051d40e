"""The operator's view of all processes that share a log, and commands to them."""
