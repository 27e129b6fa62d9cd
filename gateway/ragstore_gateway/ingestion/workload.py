"""`Workload`: the knowledge bases whose jobs a process runs."""

from __future__ import annotations

from enum import StrEnum

import sqlalchemy as sa
from sqlalchemy.orm import InstrumentedAttribute

from ragstore_gateway.configurations.tables import ConfigurationRow, ConfigurationVersionRow
from ragstore_gateway.engines.engines import IN_MEMORY
from ragstore_gateway.ingestion.tables import CollectionRow


class Workload(StrEnum):
    """The knowledge bases whose jobs a process runs.

    `in-memory` bases have their vectors in the memory of the process that serves searches, so no worker can write them.
    """

    ALL = "all"
    """All: a gateway without workers."""
    IN_MEMORY = "in-memory"
    """`in-memory` bases: a gateway beside workers."""
    OTHERS = "others"
    """All others: a worker."""

    def bases(self, base_id: InstrumentedAttribute[str]) -> sa.ColumnElement[bool]:
        """The condition that the jobs of a base belong to this process.

        Args:
            base_id: the column with the base's id.
        """
        if self is Workload.ALL:
            return sa.true()
        has_collection = (
            sa.select(CollectionRow.id)
            .where(CollectionRow.base_id == base_id, CollectionRow.store_type == IN_MEMORY)
            .exists()
        )
        # A base has its first collection when the first job is claimed.
        is_configured = (
            sa.select(ConfigurationRow.id)
            .join(
                ConfigurationVersionRow,
                sa.and_(
                    ConfigurationVersionRow.configuration_id == ConfigurationRow.id,
                    ConfigurationVersionRow.version == ConfigurationRow.current_version,
                ),
            )
            .where(
                ConfigurationRow.id == base_id,
                ConfigurationVersionRow.body["storeType"].as_string() == IN_MEMORY,
            )
            .exists()
        )
        in_memory = sa.or_(has_collection, is_configured)
        return in_memory if self is Workload.IN_MEMORY else sa.not_(in_memory)

    def engines(self, store_type: InstrumentedAttribute[str]) -> sa.ColumnElement[bool]:
        """The condition that this process can reach the vectors of an engine.

        Args:
            store_type: the column with the engine's name.
        """
        return store_type != IN_MEMORY if self is Workload.OTHERS else sa.true()
