"""What an operator sees of all processes that share a log, and tells them to do."""
