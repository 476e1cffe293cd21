"""Check the training resources of a system against those that a protocol allows."""

from __future__ import annotations

from voiceveil.evaluation.protocol import Protocol
from voiceveil.systems import Anonymizer

__all__ = ["resource_faults"]


def resource_faults(protocol: Protocol, system: Anonymizer) -> list[str]:
    """Return sentences about resources that the protocol does not allow; empty if it has no [resources].

    A system that declares no resources, or was made from undeclared ones, is at fault too.
    """
    if protocol.resources is None:
        return []
    resources = system.resources()
    if resources is None:
        return [f"{system.name} does not declare its training resources, which {protocol.name} limits"]
    return [
        f"{resource.name} (of {', '.join(resource.used_in)}) is not among the training resources of {protocol.name}"
        for resource in resources
        if resource.name not in protocol.resources.allowed
    ]
