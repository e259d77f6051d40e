"""What the request builders of all upstream formats share."""
