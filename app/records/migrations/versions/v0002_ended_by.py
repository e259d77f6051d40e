"""Who or what ended an answer that is not complete."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add the column; rows of before have none."""
    op.add_column("streams", sa.Column("ended_by", sa.String(32)))
