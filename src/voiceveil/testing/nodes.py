"""A real Ray cluster of several nodes, all of them on this machine: for tests and benchmarks."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

__all__ = ["Nodes", "ray_nodes"]

_MEMORY = 80 << 20  # bytes of a node's object store: about the smallest that Ray takes
_TRIES = 3


class Nodes:
    """A head that does no work, and what is added."""

    def __init__(self, cluster: Any) -> None:
        self._cluster = cluster
        self.address = str(cluster.address)

    def add(self) -> Any:
        """Return one more node, of one core."""
        return _tried(partial(self._cluster.add_node, num_cpus=1, object_store_memory=_MEMORY))

    def kill(self, node: Any) -> None:
        """Kill a node without a shutdown, as a power failure would."""
        self._cluster.remove_node(node, allow_graceful=False)


@contextmanager
def ray_nodes(count: int = 0) -> Iterator[Nodes]:
    """Start a Ray head and ``count`` nodes of one core each, without usage statistics; stop them at the end."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 0, "include_dashboard": False, "object_store_memory": _MEMORY}
    cluster = _tried(partial(Cluster, initialize_head=True, head_node_args=head))
    try:
        nodes = Nodes(cluster)
        for _ in range(count):
            nodes.add()
        yield nodes
    finally:
        cluster.shutdown()


def _tried(start: Callable[[], Any]) -> Any:
    """Start a node, again if its agents take longer than the 15 s that Ray allows, as on a busy machine."""
    for _ in range(_TRIES - 1):
        try:
            return start()
        except Exception as error:
            if "timed out during startup" not in str(error):
                raise
    return start()
