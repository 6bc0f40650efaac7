"""Names of everything that the doctor can find, and how bad each is; docs/doctor.md explains them."""

from __future__ import annotations

import enum


class FindingState(enum.StrEnum):
    """How bad a finding is, best first."""

    OK = "ok"
    INFO = "info"
    """Worth knowing; nothing is wrong."""
    WARNING = "warning"
    """Jobs run, but plans know less or something will fail later. Also what could not be checked."""
    ERROR = "error"
    """Jobs do not run, or are planned on wrong figures."""

    @property
    def rank(self) -> int:
        """0 for the best."""
        return tuple(FindingState).index(self)


class Fault(enum.StrEnum):
    """Stable identifiers: scripts may rely on them."""

    state: FindingState
    """Unless a check says otherwise."""

    def __new__(cls, name: str, state: FindingState = FindingState.ERROR) -> Fault:
        """The member of a name and its usual state."""
        fault = str.__new__(cls, name)
        fault._value_, fault.state = name, state
        return fault

    NOT_CHECKED = "NotChecked", FindingState.WARNING
    API_UNREACHABLE = "APIUnreachable"
    API_TOO_OLD = "APITooOld"
    API_SLOW = "APISlow", FindingState.WARNING
    CLOCK_SKEW = "ClockSkew", FindingState.WARNING
    PROMETHEUS_CLOCK_SKEW = "PrometheusClockSkew", FindingState.WARNING
    NODE_CLOCK_SKEW = "NodeClockSkew", FindingState.WARNING
    RIGHT_MISSING = "RightMissing"
    CRD_MISSING = "CRDMissing"
    CRD_NOT_SERVED = "CRDNotServed"
    CRD_OLD = "CRDOld"
    CRD_NEWER = "CRDNewer", FindingState.INFO
    MPI_CRD_MISSING = "MPIJobCRDMissing"
    MPI_CRD_VERSION = "MPIJobCRDVersion"
    MPI_OPERATOR_MISSING = "MPIOperatorMissing"
    MPI_OPERATOR_UNSEEN = "MPIOperatorUnseen", FindingState.INFO
    MPI_OPERATOR_DOWN = "MPIOperatorDown"
    MPI_OPERATOR_SLOW = "MPIOperatorSlow", FindingState.WARNING
    MPI_OPERATOR_GANG = "MPIOperatorGang", FindingState.WARNING
    MPI_OPERATOR_CANNOT_RESUME = "MPIOperatorCannotResume", FindingState.INFO
    NO_GPU_NODES = "NoGPUNodes"
    DEVICE_PLUGIN_MISSING = "DevicePluginMissing"
    DEVICE_PLUGIN_SILENT = "DevicePluginSilent"
    GPUS_BY_CLAIM = "GPUsByClaim", FindingState.INFO
    GPUS_UNHEALTHY = "GPUsUnhealthy", FindingState.WARNING
    GPUS_SLICED = "GPUsSliced", FindingState.INFO
    GPUS_SHARED = "GPUsShared", FindingState.INFO
    GPU_NODES_NOT_READY = "GPUNodesNotReady", FindingState.WARNING
    GPU_LABELS_MISSING = "GPULabelsMissing", FindingState.WARNING
    GPU_SPEED_UNKNOWN = "GPUSpeedUnknown", FindingState.INFO
    PROMETHEUS_NOT_SET = "PrometheusNotSet", FindingState.WARNING
    PROMETHEUS_UNREACHABLE = "PrometheusUnreachable"
    PROMETHEUS_TIMEOUT = "PrometheusTimeout"
    PROMETHEUS_REFUSED = "PrometheusRefused"
    PROMETHEUS_DENIED = "PrometheusDenied"
    PROMETHEUS_CREDENTIALS = "PrometheusCredentials"
    PROMETHEUS_BODY_TOO_LARGE = "PrometheusBodyTooLarge"
    TARGETS_DOWN = "TargetsDown", FindingState.WARNING
    QUERY_REFUSED = "QueryRefused"
    EXPORTER_MISSING = "ExporterMissing", FindingState.WARNING
    QUERY_EMPTY = "QueryEmpty", FindingState.INFO
    LABEL_RENAMED = "LabelRenamed", FindingState.WARNING
    METRIC_ABSENT = "MetricAbsent", FindingState.WARNING
    SERIES_WITHOUT_NODE = "SeriesWithoutNode", FindingState.WARNING
    SERIES_WITHOUT_PAIR = "SeriesWithoutPair", FindingState.WARNING
    WRONG_UNIT = "WrongUnit"
    VALUES_UNUSABLE = "ValuesUnusable", FindingState.WARNING
    METRICS_STALE = "MetricsStale", FindingState.WARNING
    METRICS_FROZEN = "MetricsFrozen", FindingState.WARNING
    NODES_UNSEEN = "NodesUnseen", FindingState.WARNING
    LINKS_MISSING = "LinksMissing", FindingState.WARNING
    LINKS_PARTIAL = "LinksPartial", FindingState.WARNING
    AGENT_MISSING = "AgentMissing", FindingState.INFO
    AGENT_PARTIAL = "AgentPartial", FindingState.WARNING
    PROBES_REFUSED = "ProbesRefused", FindingState.WARNING
    AGENT_READS_NO_GPU = "AgentReadsNoGPU", FindingState.WARNING
    GPU_PATHS_WORSE = "GPUPathsWorse", FindingState.WARNING
    GPU_PATHS_MIXED = "GPUPathsMixed", FindingState.INFO
    TOPOLOGY_LABELS_MISSING = "TopologyLabelsMissing", FindingState.WARNING
    TOPOLOGY_LABELS_PARTIAL = "TopologyLabelsPartial", FindingState.WARNING
    TOPOLOGY_LEVEL_UNKNOWN = "TopologyLevelUnknown", FindingState.WARNING
    KUEUE_MISSING = "KueueMissing"
    KUEUE_DOWN = "KueueDown"
    KUEUE_WITHOUT_MPI = "KueueWithoutMPIJobs", FindingState.WARNING
    KUEUE_OWNS_OUR_KIND = "KueueOwnsOurKind", FindingState.WARNING
    KUEUE_QUEUE_MISSING = "KueueQueueMissing"
    IMAGE_PULL_FAILED = "ImagePullFailed"
    POD_MISCONFIGURED = "PodMisconfigured", FindingState.WARNING
    POD_CRASHING = "PodCrashing", FindingState.WARNING
    OPERATOR_MISSING = "OperatorMissing"
    OPERATOR_OUTSIDE = "OperatorOutside", FindingState.INFO
    OPERATOR_DOWN = "OperatorDown"
    LEASE_MISSING = "LeaseMissing"
    LEASE_STALE = "LeaseStale"
    LEASE_FOREIGN = "LeaseForeign"
    OPERATORS_OVERLAP = "OperatorsOverlap"
    OPERATOR_VERSIONS = "OperatorVersions", FindingState.WARNING
    OPERATOR_OTHER_VERSION = "OperatorOtherVersion", FindingState.INFO
    HISTORY_VOLATILE = "HistoryVolatile", FindingState.INFO
    HISTORY_OFF = "HistoryOff", FindingState.INFO
    HISTORY_UNREACHABLE = "HistoryUnreachable", FindingState.WARNING
    POLICY_INVALID = "PolicyInvalid"
    POLICY_MISSING = "PolicyMissing"
    OBJECTS_UNUSABLE = "ObjectsUnusable", FindingState.WARNING
