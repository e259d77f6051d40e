"""The records: a database with one row a stream and daily sums, and queries on them.

The log stores the row of every ended stream until it is committed here: see `WaitingRows` of the
log. No stream waits for the database. Needs the extra `records` or `postgresql`.
"""
