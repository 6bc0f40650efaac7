"""Facts of the cluster that the operator runs in: its id, and where previews are served."""

from __future__ import annotations

from hyperscale.control.apply import paths
from hyperscale.control.apply.api_answers import ApiError
from hyperscale.control.apply.client import ApiClient
from hyperscale.control.settings import Settings
from hyperscale.model import constants
from hyperscale.model.api.topology import TopologyPreview


async def cluster_id(client: ApiClient) -> str:
    """The uid of the ClusterTopology, which no other cluster has; empty where there is none yet."""
    try:
        topology = await client.find(paths.topologies(constants.TOPOLOGY_NAME))
    except ApiError:
        return ""
    return str(topology["metadata"].get("uid") or "") if topology else ""


def served_previews(settings: Settings) -> TopologyPreview | None:
    """Where previews are served; None where they could not be found."""
    if not (settings.preview_port and settings.preview_service and settings.preview_secret):
        return None
    return TopologyPreview(settings.namespace, settings.preview_service, settings.preview_secret)
