"""Authentication: principals, credentials and their verification."""
