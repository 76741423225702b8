"""Column types of the migrations. A migration never changes; neither do these."""

from __future__ import annotations

import sqlalchemy as sa

SERIAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
TIME = sa.TIMESTAMP(timezone=True).with_variant(sa.String(), "sqlite")
