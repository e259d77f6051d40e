"""One module a step; Alembic finds them by the folder."""
