"""The steps from each version of the tables to the next, by Alembic.

Several versions of the relay may write to one database: a step adds, with defaults, and takes
nothing away.
"""
