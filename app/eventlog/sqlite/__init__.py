"""The log in a SQLite file, of one process or of several."""
