"""Streams, daily sums, and what was erased."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

NAME = 256
MODEL = 512


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "streams",
        sa.Column("stream", sa.String(64), nullable=False),
        sa.Column("day", sa.Date, nullable=False),
        sa.Column("request_id", sa.String(NAME), nullable=False),
        sa.Column("tenant", sa.String(NAME), nullable=False),
        sa.Column("user", sa.String(NAME), nullable=False),
        sa.Column("key", sa.String(NAME), nullable=False),
        sa.Column("route", sa.String(MODEL), nullable=False),
        sa.Column("model", sa.String(MODEL), nullable=False),
        sa.Column("client_format", sa.String(64), nullable=False),
        sa.Column("target", sa.String(MODEL)),
        sa.Column("answered_model", sa.String(MODEL)),
        sa.Column("started_at", sa.Double, nullable=False),
        sa.Column("ended_at", sa.Double, nullable=False),
        sa.Column("first_event_s", sa.Double),
        sa.Column("longest_gap_s", sa.Double),
        sa.Column("status", sa.String(32), nullable=False),
        sa.Column("finish_reason", sa.String(32), nullable=False),
        sa.Column("code", sa.String(64)),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("readers", sa.Integer, nullable=False),
        sa.Column("resumes", sa.Integer, nullable=False),
        sa.Column("events", sa.BigInteger, nullable=False),
        sa.Column("input_tokens", sa.BigInteger),
        sa.Column("output_tokens", sa.BigInteger),
        sa.Column("cached_input_tokens", sa.BigInteger),
        sa.Column("cache_write_tokens", sa.BigInteger),
        sa.Column("reasoning_tokens", sa.BigInteger),
        sa.Column("usage_from", sa.String(16), nullable=False),
        sa.Column("nano_usd", sa.BigInteger),
        sa.Column("price_version", sa.String(NAME), nullable=False),
        sa.Column("trace_id", sa.String(64), nullable=False),
        sa.Column("lost", sa.Boolean, nullable=False),
        sa.Column("content", sa.Text),
        sa.PrimaryKeyConstraint("stream", "day"),
        postgresql_partition_by="RANGE (day)",
    )
    op.create_index("ix_streams_started", "streams", ["started_at"])
    op.create_index("ix_streams_user", "streams", ["user", "tenant"])
    op.create_table(
        "rollups",
        sa.Column("day", sa.Date, nullable=False),
        sa.Column("id", sa.LargeBinary(16), nullable=False),
        *(sa.Column(name, sa.String(NAME), nullable=False) for name in ("tenant", "user", "key")),
        *(sa.Column(name, sa.String(MODEL), nullable=False) for name in ("route", "target")),
        *(
            sa.Column(name, sa.BigInteger, nullable=False)
            for name in (
                *("requests", "failures", "input_tokens", "output_tokens"),
                *("cached_input_tokens", "cache_write_tokens", "reasoning_tokens"),
                *("nano_usd", "unpriced"),
            )
        ),
        sa.PrimaryKeyConstraint("day", "id"),
    )
    op.create_index("ix_rollups_user", "rollups", ["user", "tenant"])
    op.create_table(
        "erased",
        sa.Column("digest", sa.LargeBinary(16), primary_key=True),
        sa.Column("at", sa.Double, nullable=False),
    )
    op.create_index("ix_erased_at", "erased", ["at"])
