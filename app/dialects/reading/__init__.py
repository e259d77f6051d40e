"""What the parsers of all upstream formats share."""
