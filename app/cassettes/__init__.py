"""Cassettes: recorded streams as small text files, and their replay without a provider."""
