"""Client side: requests from and responses to clients."""
