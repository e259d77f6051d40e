"""The log in Redis (or Valkey): streams that every replica can read, stop and end."""
