"""Log lines about findings."""

from __future__ import annotations

import logging

from pulsed.accounting.findings import FindingChange

log = logging.getLogger(__name__)


def log_finding(change: FindingChange, node: str) -> None:
    """Log a finding that begins or ends; `node` is the host of GPUs without a node of their own."""
    entity, owner = change.device.entity, change.owner
    log.log(
        logging.WARNING if change.is_active else logging.INFO,
        f"{change.name} suspected: {change.message}" if change.is_active else f"{change.name} no longer suspected",
        extra={"node": entity.node or node, "gpu": entity.gpu, "uuid": entity.uuid, "owner": owner.id},
    )
