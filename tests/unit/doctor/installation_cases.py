"""Every fault of the API server, the CRDs, the operators, the GPUs, the pods and the objects, with facts that show it."""

from __future__ import annotations

from typing import Any

from hyperscale.doctor.facts import (
    Facts,
    HistoryFacts,
    JobFacts,
    Kueue,
    PodTrouble,
    Review,
    Right,
    ServerFacts,
    Unread,
    Unusable,
)
from hyperscale.doctor.faults import Fault
from hyperscale.model.api.policy import PolicySpec
from tests.unit.doctor.doctor_facts import (
    ACCOUNT,
    NODES,
    agent,
    changed,
    crds,
    divided,
    dra_driver,
    facts,
    kueue_controller,
    lease,
    mpi_operator,
    node,
    operator,
    plugin,
    pod,
)
from tests.unit.doctor.fault_case import ERROR, INFO, OTHERS, Case

QUEUED = JobFacts("team-a", "cora", queue="team-a")
KUEUE = Kueue(("v1beta1",), ("kubeflow.org/mpijob",), (), ("team-a/team-a",))


def policy(text: dict[str, object], name: str = "default") -> dict[str, object]:
    return {"apiVersion": "hyperscale.dev/v1alpha1", "kind": "PlannerPolicy", "metadata": {"name": name}, "spec": text}


def crashed(reason: str, message: str = "", **changes: object) -> Facts:
    return facts(pods=(pod(troubles=(PodTrouble("hyperscale/operator:0.1.0", reason, message),), **changes),))


def sliced(name: str) -> dict[str, Any]:
    return divided(name, 14, gpu__product="NVIDIA-H100-80GB-HBM3-MIG-1g.10gb", mig__strategy="single")


def shared(name: str) -> dict[str, Any]:
    return divided(name, 8, gpu__product="NVIDIA-H100-80GB-HBM3-SHARED", gpu__replicas="4", gpu__sharing_strategy="time-slicing")


INSTALLATION_CASES = (
    Case(
        Fault.NOT_CHECKED, facts(node_clocks=Unread("list leases.coordination.k8s.io", 403, "forbidden")), "kubectl auth can-i list leases"
    ),
    Case(Fault.NOT_CHECKED, facts(crds=Unread("get customresourcedefinitions", 0, "no answer")), "try again"),
    Case(Fault.API_UNREACHABLE, facts(server=Unread("get /version", 0, "no answer")), "cluster-info", ERROR),
    Case(Fault.API_TOO_OLD, facts(server=ServerFacts("v1.29.3", 0.1)), "1.30", ERROR),
    Case(Fault.API_SLOW, facts(server=ServerFacts("v1.34.0", 4.0)), "requestTimeoutSeconds"),
    Case(Fault.CLOCK_SKEW, facts(server=ServerFacts("v1.34.0", 0.1, -12.0)), "timedatectl"),
    Case(Fault.CLOCK_SKEW, facts(server=ServerFacts("v1.34.0", 0.1, 95.0)), "timedatectl", ERROR),
    Case(Fault.NODE_CLOCK_SKEW, facts(node_clocks=(("gpu-2", 40.0),)), "timedatectl"),
    Case(Fault.RIGHT_MISSING, facts(reviews=(Review(ACCOUNT, (Right("patch", "", "pods"),), 38),)), "rbac.create=true", ERROR),
    Case(Fault.RIGHT_MISSING, facts(reviews=(Review(ACCOUNT, (Right("create", "", "events"),), 38),)), "rbac.create=true"),
    Case(Fault.CRD_MISSING, facts(crds=crds(gnntrainingjobs=None)), "crds.enabled=true", ERROR),
    Case(Fault.CRD_MISSING, facts(crds=crds(clustertopologies=None)), "crds.enabled=true"),
    Case(Fault.CRD_NOT_SERVED, facts(crds=crds(plannerpolicies=changed(crds()[1], established=False))), "crds.enabled=true", ERROR),
    Case(Fault.CRD_OLD, facts(crds=crds(plannerpolicies=changed(crds()[1], fields=frozenset({"spec"})))), "crds.enabled=true", ERROR),
    Case(Fault.CRD_NEWER, facts(crds=crds(plannerpolicies=changed(crds()[1], fields=crds()[1].fields | {"spec.x"}))), "release", INFO),
    Case(Fault.MPI_CRD_MISSING, facts(crds=crds(mpijobs=None)), "mpi-operator.yaml", ERROR),
    Case(Fault.MPI_CRD_VERSION, facts(crds=crds(mpijobs=changed(crds()[3], served=("v1",)))), "mpi-operator.yaml", ERROR),
    Case(Fault.MPI_OPERATOR_MISSING, facts(workloads=(operator(), agent(), plugin())), "mpi-operator.yaml", ERROR),
    Case(
        Fault.MPI_OPERATOR_UNSEEN,
        facts(workloads=(operator(), agent(), plugin()), leases=(lease(), lease(name="mpi-operator", holder="x"))),
        "-kube-api-qps=100",
        INFO,
    ),
    Case(Fault.MPI_OPERATOR_DOWN, facts(workloads=(operator(), agent(), mpi_operator(ready=0), plugin())), "describe pods", ERROR),
    Case(Fault.MPI_OPERATOR_DOWN, facts(workloads=(operator(), agent(), mpi_operator(ready=0, wanted=0), plugin())), "--replicas=1", ERROR),
    Case(Fault.MPI_OPERATOR_SLOW, facts(workloads=(operator(), agent(), mpi_operator("-v=4"), plugin())), "-kube-api-burst=200"),
    Case(
        Fault.MPI_OPERATOR_GANG,
        facts(workloads=(operator(), agent(), mpi_operator(*mpi_operator().arguments, "--gang-scheduling=volcano"), plugin())),
        "remove the flag",
    ),
    Case(
        Fault.MPI_OPERATOR_CANNOT_RESUME,
        facts(mpi_may_resume=False, jobs=(JobFacts("a", "b", suspended=True),)),
        "kubectl patch clusterrole",
    ),
    Case(Fault.MPI_OPERATOR_CANNOT_RESUME, facts(mpi_may_resume=False), "kubectl patch clusterrole", INFO),
    Case(Fault.NO_GPU_NODES, facts(nodes=()), "device plugin", ERROR),
    Case(
        Fault.DEVICE_PLUGIN_MISSING,
        facts(nodes=tuple(node(name, 0) for name in NODES), workloads=(operator(), agent(), mpi_operator())),
        "nvdp/nvidia-device-plugin",
        ERROR,
    ),
    Case(Fault.DEVICE_PLUGIN_SILENT, facts(nodes=(node("gpu-1"), node("gpu-2"), node("gpu-3", 0))), "nvidia-smi", ERROR),
    Case(
        Fault.GPUS_BY_CLAIM,
        facts(nodes=tuple(node(name, 0) for name in NODES), workloads=(operator(), agent(), mpi_operator(), dra_driver())),
        "one or the other for its GPUs, not both",
        ERROR,
    ),
    Case(
        Fault.GPUS_BY_CLAIM,
        facts(nodes=(node("gpu-1"), node("gpu-2"), node("gpu-3", 0)), workloads=(operator(), *OTHERS[:2], dra_driver(), plugin(wanted=2))),
        "one or the other for its GPUs, not both",
        INFO,
    ),
    Case(
        Fault.GPUS_UNHEALTHY,
        facts(
            nodes=(*map(node, NODES[:2]), {**(bad := node("gpu-3")), "status": {**bad["status"], "allocatable": {"nvidia.com/gpu": "1"}}})
        ),
        "Xid",
    ),
    Case(Fault.GPU_NODES_NOT_READY, facts(nodes=(node("gpu-1"), node("gpu-2"), node("gpu-3", ready=False))), "describe node gpu-3"),
    Case(Fault.GPU_LABELS_MISSING, facts(nodes=(*map(node, NODES[:2]), node("gpu-3", gpu_product=None))), "gfd.enabled=true"),
    Case(
        Fault.GPU_SPEED_UNKNOWN, facts(nodes=(*map(node, NODES[:2]), node("gpu-3", gpu_product="NVIDIA-X9"))), '"product":"NVIDIA-X9"', INFO
    ),
    Case(Fault.GPUS_SLICED, facts(nodes=(*map(node, NODES[:2]), sliced("gpu-3"))), "node gpu-3 nvidia.com/mig.config=all-disabled", INFO),
    Case(Fault.GPUS_SLICED, facts(nodes=tuple(map(sliced, NODES))), "nvidia-smi -mig 0", ERROR),
    Case(Fault.GPUS_SHARED, facts(nodes=(*map(node, NODES[:2]), shared("gpu-3"))), "sharing.timeSlicing", INFO),
    Case(Fault.GPUS_SHARED, facts(nodes=tuple(map(shared, NODES))), "sharing.mps", ERROR),
    Case(Fault.GPUS_SHARED, facts(nodes=tuple(divided(name, 1, gpu__product="NVIDIA-A10-4Q") for name in NODES)), "whole card", ERROR),
    Case(
        Fault.TOPOLOGY_LABELS_MISSING,
        facts(nodes=tuple(node(name, zone=None, topology_rack=None) for name in NODES)),
        "kubectl label node gpu-1",
    ),
    Case(Fault.TOPOLOGY_LABELS_PARTIAL, facts(nodes=(*map(node, NODES[:2]), node("gpu-3", zone=None))), "kubectl label node gpu-3"),
    Case(Fault.TOPOLOGY_LEVEL_UNKNOWN, facts(policy=PolicySpec(topology_levels=("example.com/row",))), "topologyLevels"),
    Case(Fault.KUEUE_MISSING, facts(jobs=(QUEUED,)), "kubectl label gnntj -n team-a cora", ERROR),
    Case(Fault.KUEUE_DOWN, facts(kueue=KUEUE, workloads=(operator(), *OTHERS, kueue_controller(ready=0))), "describe pods", ERROR),
    Case(Fault.KUEUE_WITHOUT_MPI, facts(kueue=changed(KUEUE, frameworks=("batch/job",))), "kueue-manager-config"),
    Case(
        Fault.KUEUE_OWNS_OUR_KIND, facts(kueue=changed(KUEUE, external=("gnntrainingjob.v1alpha1.hyperscale.dev",))), "externalFrameworks"
    ),
    Case(Fault.KUEUE_QUEUE_MISSING, facts(kueue=changed(KUEUE, queues=("team-a/gpus",)), jobs=(QUEUED,)), "queue-name=gpus", ERROR),
    Case(Fault.IMAGE_PULL_FAILED, crashed("ErrImagePull", "pull access denied, unauthorized"), "docker-registry", ERROR),
    Case(Fault.IMAGE_PULL_FAILED, crashed("ImagePullBackOff", "dial tcp: no such host"), "DNS", ERROR),
    Case(Fault.IMAGE_PULL_FAILED, crashed("InvalidImageName"), "image.repository", ERROR),
    Case(Fault.POD_MISCONFIGURED, crashed("CreateContainerConfigError", 'secret "db" not found'), "create secret generic db", ERROR),
    Case(Fault.POD_CRASHING, crashed("CrashLoopBackOff", "back-off"), "logs hyperscale-7d9-x --previous", ERROR),
    Case(Fault.POD_CRASHING, facts(pods=(pod(restarts=9, ended="OOMKilled"),)), "resources.limits.memory"),
    Case(Fault.OPERATOR_MISSING, facts(workloads=OTHERS, leases=(), pods=()), "helm install hyperscale", ERROR),
    Case(Fault.OPERATOR_OUTSIDE, facts(workloads=OTHERS, pods=()), "helm install hyperscale", INFO),
    Case(Fault.OPERATOR_DOWN, facts(workloads=(operator(ready=0), *OTHERS)), "describe pods", ERROR),
    Case(Fault.LEASE_MISSING, facts(leases=()), "rollout restart", ERROR),
    Case(Fault.LEASE_STALE, facts(leases=(lease(silent_seconds=120.0),)), "rollout restart", ERROR),
    Case(Fault.LEASE_FOREIGN, facts(leases=(lease(holder="laptop-1234"),)), "delete lease", ERROR),
    Case(
        Fault.OPERATORS_OVERLAP,
        facts(workloads=(operator(), operator(namespace="b", ready=0, environment={"HYPERSCALE_WATCH_NAMESPACES": "team-a"}), *OTHERS)),
        "watchNamespaces",
        ERROR,
        frozenset({Fault.OPERATOR_DOWN}),
    ),
    Case(Fault.OPERATOR_VERSIONS, facts(pods=(pod(), pod(name="old", images=("hyperscale/operator:0.0.9",)))), "rollout status"),
    Case(Fault.OPERATOR_OTHER_VERSION, facts(version="9.9"), "same release", INFO),
    Case(Fault.HISTORY_OFF, facts(history=HistoryFacts()), "history.url=", INFO),
    Case(Fault.HISTORY_VOLATILE, facts(history=HistoryFacts("sqlite:////tmp/history.sqlite")), "PersistentVolumeClaim", INFO),
    Case(Fault.HISTORY_UNREACHABLE, facts(history=HistoryFacts("postgresql://db/x", "no ready endpoint")), "networkPolicy.historyPorts"),
    Case(Fault.POLICY_INVALID, facts(policies=(policy({"seed": -1}, "mine"),)), "kubectl edit plannerpolicy mine", ERROR),
    Case(
        Fault.OBJECTS_UNUSABLE,
        facts(unusable=(Unusable("Pod", "team-a/greedy", "nvidia.com/gpu: 1e+30 is not from 0 to 4096"),)),
        "kubectl delete pod greedy -n team-a",
    ),
    Case(
        Fault.OBJECTS_UNUSABLE,
        facts(unusable=tuple(Unusable("Node", f"gpu-{number:02d}", "cpu: odd") for number in range(12))),
        "kubectl delete node gpu-00",
    ),
    Case(Fault.POLICY_MISSING, facts(jobs=(JobFacts("team-a", "cora", policy="gone"),)), "create PlannerPolicy gone", ERROR),
)
