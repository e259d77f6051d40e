"""Cassettes: streams as small text files, and what replays them without a provider."""
