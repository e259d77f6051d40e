"""The records: one row a stream in a database, daily sums of them, and what asks for these.

The log keeps the row of every stream that has ended until it is here: see `WaitingRows` of the log.
Nothing of this is on the path of a stream. Needs the extra `records` or `postgresql`.
"""
