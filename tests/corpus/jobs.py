"""GNNTrainingJobs that every check must accept, and ones that every check must refuse, for the API server and spec/parse.py alike.

Longer than other modules: one list, so that what is accepted stands beside what is refused.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

Resource = dict[str, Any]

ABSENT: Final = object()
"""Given as a value, removes the field."""


def job(changes: Mapping[str, object] | None = None) -> Resource:
    """A small good job with fields replaced; a key is a dotted path from the root."""
    made: Resource = {
        "apiVersion": "hyperscale.dev/v1alpha1",
        "kind": "GNNTrainingJob",
        "metadata": {"name": "cora", "namespace": "default"},
        "spec": {
            "model": {"architecture": "GCN"},
            "dataset": {"source": {"builtin": {"name": "Cora"}}},
            "workers": {"minReplicas": 2, "maxReplicas": 4},
        },
    }
    for path, value in (changes or {}).items():
        *parents, last = path.split(".")
        holder = made
        for parent in parents:
            holder = holder.setdefault(parent, {})
        if value is ABSENT:
            holder.pop(last, None)
        else:
            holder[last] = copy.deepcopy(value)
    return made


STORED: Final[Resource] = {
    "source": {"s3": {"bucket": "graphs"}},
    "path": "arxiv/graph.bin",
    "vertices": 169343,
    "edges": 2332486,
    "featureSize": 128,
    "classes": 40,
}
"""A dataset that is not builtin, complete."""


CPU_REQUEST: Final = "spec.workers.resources.requests[cpu]"


def limits(gpus: int | str) -> Resource:
    """`resources` of a worker with so many GPUs."""
    return {"limits": {"nvidia.com/gpu": gpus}}


def generated_without(name: str) -> Resource:
    return {**{key: value for key, value in STORED.items() if key not in (name, "path")}, "source": {"generated": {"kind": "SBM"}}}


@dataclass(frozen=True)
class Bad:
    """A job that is refused, and what the refusal must say."""

    name: str
    changes: Mapping[str, object]
    path: str
    """Stands in the API server's message and is SpecError.path."""
    words: str = ""
    """Stand in both messages; for a rule of the CRD's own (CEL) they are the same."""
    spec_words: str = ""
    """Stand in SpecError.message only: the API server has its own wording for types and bounds."""
    spec_path: str = field(default="")
    """SpecError.path where the API server names the same field differently."""


FORMER_NAMES: Final[tuple[tuple[str, object, str], ...]] = (
    ("spec.workers.min", 1, "minReplicas"),
    ("spec.workers.max", 4, "maxReplicas"),
    ("spec.worker", {"template": {}}, "workers"),
    ("spec.partitioning.volumeClaimName", "parts", "claimName"),
    ("spec.checkpoint.volumeClaimName", "state", "claimName"),
    ("spec.dataset.source.pvc", {"claimName": "graphs"}, "persistentVolumeClaim"),
    ("spec.dataset.source.s3.secretName", "keys", "secretRef"),
    ("spec.recovery.maxReplans", 3, "maxPlanChanges"),
    ("spec.model.hyperparameters.schedule", "cosine", "learningRateSchedule"),
    ("spec.model.hyperparameters.patience", 10, "patienceEpochs"),
    ("spec.model.hyperparameters.evaluateEvery", 5, "evaluateEveryEpochs"),
    ("spec.model.hyperparameters.cacheBytes", 1024, "cacheSize"),
)
"""Path, value, and the field that replaced it: refused in words that name the new one."""

DECIMAL_FIELDS: Final = (
    "placement.communicationWeight",
    "model.hyperparameters.learningRate",
    "model.hyperparameters.averageDecay",
    "model.hyperparameters.weightDecay",
    "model.hyperparameters.dropout",
    "model.hyperparameters.attentionDropout",
    "model.hyperparameters.projectedDropout",
)
"""Decimal strings of a job."""


def _typed() -> tuple[Bad, ...]:
    """Types, bounds and words of single fields."""
    return (
        Bad(
            "worker counts with a fraction",
            {"spec.workers": {"maxReplicas": 4.0}},
            "spec",
            spec_words="4.0",
            spec_path="spec.workers.maxReplicas",
        ),
        Bad("no spec", {"spec": ABSENT}, "spec", spec_words="write an object with the fields model"),
        Bad("no model", {"spec.model": ABSENT}, "spec.model", spec_words="required"),
        Bad("no architecture", {"spec.model": {}}, "spec.model.architecture", spec_words="one of GCN, GraphSAGE"),
        Bad("no dataset", {"spec.dataset": ABSENT}, "spec.dataset", spec_words="required"),
        Bad("no dataset source", {"spec.dataset": {}}, "spec.dataset.source", spec_words="persistentVolumeClaim"),
        Bad("no workers", {"spec.workers": ABSENT}, "spec.workers", spec_words="required"),
        Bad("no workers.maxReplicas", {"spec.workers": {"minReplicas": 1}}, "spec.workers.maxReplicas", spec_words="from 1 to 1000"),
        Bad(
            "unknown architecture",
            {"spec.model.architecture": "GraphSage"},
            "spec.model.architecture",
            spec_words="did you mean GraphSAGE?",
        ),
        Bad("architecture of another case", {"spec.model.architecture": "gcn"}, "spec.model.architecture", spec_words="GCN"),
        Bad("zero layers", {"spec.model.layers": 0}, "spec.model.layers", spec_words="0 is too small; write a whole number from 1 to 64"),
        Bad("too many layers", {"spec.model.layers": 65}, "spec.model.layers", spec_words="too large"),
        Bad("negative hidden size", {"spec.model.hiddenSize": -256}, "spec.model.hiddenSize", spec_words="-256 is too small"),
        Bad("half an epoch", {"spec.model.epochs": 0.5}, "spec.model.epochs", spec_words="whole number"),
        Bad("epochs as text", {"spec.model.epochs": "100"}, "spec.model.epochs", spec_words="'100' is not allowed; write a whole number"),
        Bad("a fanout of zero", {"spec.model.fanouts": [10, 0]}, "spec.model.fanouts[1]", spec_words="0 is too small"),
        Bad("script above its folder", {"spec.model.script": "../train.py"}, "spec.model.script", spec_words="relative path without .."),
        Bad("script by absolute path", {"spec.model.script": "/bin/sh"}, "spec.model.script", spec_words="relative path"),
        Bad("script with an argument", {"spec.model.script": "train.py --x $(id)"}, "spec.model.script", spec_words="relative path"),
        Bad(
            "misspelt hyper-parameter",
            {"spec.model.hyperparameters": {"learningrate": 0.1}},
            "spec.model.hyperparameters.learningrate",
            spec_words="did you mean learningRate?",
        ),
        Bad(
            "dropout of everything",
            {"spec.model.hyperparameters": {"dropout": "1.0"}},
            "spec.model.hyperparameters.dropout",
            spec_words="'1.0' is too large; write a decimal number in quotes from 0 to below 1",
        ),
        Bad(
            "learning nothing",
            {"spec.model.hyperparameters": {"learningRate": "0"}},
            "spec.model.hyperparameters.learningRate",
            spec_words="'0' is too small; write a decimal number in quotes above 0 to 10",
        ),
        Bad(
            "unknown schedule",
            {"spec.model.hyperparameters": {"learningRateSchedule": "Linear"}},
            "spec.model.hyperparameters.learningRateSchedule",
            spec_words="one of Constant, Cosine",
        ),
        Bad("dataset path above its volume", {"spec.dataset.path": "a/../../etc"}, "spec.dataset.path", spec_words="without .."),
        Bad("dataset path with a line break", {"spec.dataset.path": "graph.bin\n"}, "spec.dataset.path", spec_words="control character"),
        Bad("dataset path of 1025 characters", {"spec.dataset.path": "a" * 1025}, "spec.dataset.path", spec_words="1025 characters"),
        Bad("unknown builtin graph", {"spec.dataset.source.builtin.name": "cora"}, "spec.dataset.source.builtin.name", spec_words="Cora"),
        Bad(
            "endpoint that is no URL",
            {"spec.dataset": {**STORED, "source": {"s3": {"bucket": "graphs", "endpoint": "file:///etc/passwd"}}}},
            "spec.dataset.source.s3.endpoint",
            spec_words="not allowed",
        ),
        Bad("more vertices than int64", {"spec.dataset": {**STORED, "vertices": 2**63}}, "spec.dataset.vertices", spec_words="64 bits"),
        Bad(
            "zero workers",
            {"spec.workers": {"maxReplicas": 0}},
            "spec.workers.maxReplicas",
            spec_words="0 is too small; write a whole number from 1 to 1000",
        ),
        Bad("a million workers", {"spec.workers": {"maxReplicas": 10**6}}, "spec.workers.maxReplicas", spec_words="too large"),
        Bad(
            "zero GPUs a worker",
            {"spec.workers.resources": limits(0)},
            "spec.workers.resources.limits[nvidia.com/gpu]",
            "write a quantity above 0",
        ),
        Bad(
            "GPU memory without digits",
            {"spec.workers.gpuMemory": "lots"},
            "spec.workers.gpuMemory",
            spec_words="write a quantity from 1Mi to 16Ti",
        ),
        Bad("GPU memory beyond any GPU", {"spec.workers.gpuMemory": "17Ti"}, "spec.workers.gpuMemory", "write a quantity from 1Mi to 16Ti"),
        Bad("GPU memory without its unit", {"spec.workers.gpuMemory": 8}, "spec.workers.gpuMemory", "write a quantity from 1Mi to 16Ti"),
        Bad(
            "a builtin graph of another size",
            {"spec.dataset": {"source": {"builtin": {"name": "CiteSeer"}}, "vertices": 2_708}},
            "spec.dataset",
            "leave vertices, edges, featureSize and classes out",
        ),
        Bad(
            "more training vertices than vertices",
            {"spec.dataset.vertices": 2_708, "spec.dataset.trainVertices": 2_709},
            "spec.dataset.trainVertices",
            "write at most spec.dataset.vertices",
        ),
        Bad("negative GPU memory", {"spec.workers.gpuMemory": "-1Gi"}, "spec.workers.gpuMemory", "write a quantity from 1Mi to 16Ti"),
        Bad(
            "a cache in words",
            {"spec.model.hyperparameters.cacheSize": "big"},
            "spec.model.hyperparameters.cacheSize",
            spec_words="quantity",
        ),
        Bad(
            "a cache beyond memory",
            {"spec.model.hyperparameters.cacheSize": "2Pi"},
            "spec.model.hyperparameters.cacheSize",
            "quantity from 0 to 1Pi",
        ),
        *(
            Bad(f"{field} {text}", {f"spec.{field}": value}, f"spec.{field}", spec_words="write a decimal number in quotes")
            for field in DECIMAL_FIELDS
            for text, value in (("in words", "abc"), ("below 0", "-0.1"), ("above its bound", "1001"), ("as a number", 0.5))
        ),
        Bad("negative CPU", {"spec.workers.resources": {"requests": {"cpu": "-1"}}}, CPU_REQUEST, "write a quantity above 0"),
        Bad(
            "CPU in words",
            {"spec.workers.resources": {"requests": {"cpu": "two"}}},
            "spec.workers.resources.requests.cpu",
            spec_path=CPU_REQUEST,
            spec_words="write a quantity above 0",
        ),
        Bad(
            "half a core as a number",
            {"spec.workers.resources": {"requests": {"cpu": 0.5}}},
            "spec.workers.resources.requests.cpu",
            spec_path=CPU_REQUEST,
            spec_words="write a quantity",
        ),
        Bad("a claim for devices", {"spec.workers.resources": {"claims": []}}, "spec.workers.resources.claims", spec_words="unknown field"),
        Bad(
            "a resource without domain",
            {"spec.workers.resources": {"limits": {"cpus": 2}}},
            "spec.workers.resources.limits",
            "that name a resource such as cpu, memory or rdma/hca",
            spec_path="spec.workers.resources.limits.cpus",
        ),
        Bad(
            "17 resources",
            {"spec.workers.resources": {"limits": {f"example.com/r{number}": 1 for number in range(17)}}},
            "spec.workers.resources.limits",
            spec_words="at most 16 entries",
        ),
        Bad("GPU product with a space", {"spec.workers.gpuProducts": ["A 100"]}, "spec.workers.gpuProducts[0]", spec_words="label value"),
        Bad("one product as text", {"spec.workers.gpuProducts": "A100"}, "spec.workers.gpuProducts", spec_words="a list of at most 32"),
        Bad("33 products", {"spec.workers.gpuProducts": [f"p{i}" for i in range(33)]}, "spec.workers.gpuProducts", spec_words="at most 32"),
        Bad("unknown partitioner", {"spec.partitioning.method": "Metis"}, "spec.partitioning.method", spec_words="METIS"),
        Bad("zero partitions", {"spec.partitioning.count": 0}, "spec.partitioning.count", spec_words="whole number from 1 to 16000"),
        Bad("partition count in words", {"spec.partitioning.count": "four"}, "spec.partitioning.count", spec_words="whole number from 1"),
        Bad("partition count as text", {"spec.partitioning.count": "4"}, "spec.partitioning.count", spec_words="whole number from 1"),
        Bad(
            "negative weight",
            {"spec.placement.communicationWeight": "-1"},
            "spec.placement.communicationWeight",
            spec_words="from 0 to 1000",
        ),
        Bad("unknown placement mode", {"spec.placement.mode": "Hard"}, "spec.placement.mode", spec_words="Strict, Preferred, Advisory"),
        Bad(
            "selector value that is no text",
            {"spec.placement.nodeSelector": {"zone": 4}},
            "spec.placement.nodeSelector.zone",
            spec_words="4",
        ),
        Bad(
            "selector value with a space",
            {"spec.placement.nodeSelector": {"zone": "eu west"}},
            "spec.placement.nodeSelector.zone",
            spec_words="label value",
        ),
        Bad(
            "selector key with a space",
            {"spec.placement.nodeSelector": {"my zone": "a"}},
            "spec.placement.nodeSelector",
            spec_words="label key",
            spec_path="spec.placement.nodeSelector.my zone",
        ),
        Bad("planner by its technique", {"spec.planner": "GNN"}, "spec.planner", spec_words="one of Auto, Learned, Heuristic, None"),
        Bad("approval by a truth value", {"spec.startPolicy": True}, "spec.startPolicy", spec_words="true is not allowed"),
        Bad("a start policy that does not exist", {"spec.startPolicy": "Later"}, "spec.startPolicy", "Automatic"),
        Bad(
            "impatient force delete", {"spec.recovery.forceDeleteAfterSeconds": 1}, "spec.recovery.forceDeleteAfterSeconds", spec_words="30"
        ),
        Bad("checkpoint without a claim", {"spec.checkpoint": {}}, "spec.checkpoint.claimName", spec_words="required"),
        Bad("claim in capitals", {"spec.checkpoint.claimName": "Shared"}, "spec.checkpoint.claimName", spec_words="a-z"),
        Bad(
            "claim with two dots in a row",
            {"spec.checkpoint.claimName": "shared..a"},
            "spec.checkpoint.claimName",
            spec_words="in every part between dots",
        ),
        Bad(
            "policy with a part that ends in a dash",
            {"spec.policyRef.name": "fast-.a"},
            "spec.policyRef.name",
            spec_words="in every part between dots",
        ),
        Bad(
            "selector key with two dots in a row",
            {"spec.placement.nodeSelector": {"example..com/pool": "a"}},
            "spec.placement.nodeSelector",
            spec_words="label key",
            spec_path="spec.placement.nodeSelector.example..com/pool",
        ),
        Bad("negative retries", {"spec.runPolicy.backoffLimit": -1}, "spec.runPolicy.backoffLimit", spec_words="from 0 to 100"),
        Bad(
            "unknown clean-up", {"spec.runPolicy.cleanPodPolicy": "Never"}, "spec.runPolicy.cleanPodPolicy", spec_words="None, Running, All"
        ),
        Bad("template as text", {"spec.workers.template": "pod"}, "spec.workers.template", spec_words="an object"),
        Bad("policy without a name", {"spec.policyRef": {}}, "spec.policyRef.name", spec_words="required"),
        Bad("misspelt field", {"spec.workers.maxReplica": 4}, "spec.workers.maxReplica", spec_words="did you mean maxReplicas?"),
        Bad("field of the wrong case", {"spec.runpolicy": {}}, "spec.runpolicy", spec_words="did you mean runPolicy?"),
        Bad("field of nothing", {"spec.replicas": 3}, "spec.replicas", spec_words="known are model, dataset"),
        *(Bad(f"{old}, now {new}", {old: value}, old, spec_words=new) for old, value, new in FORMER_NAMES),
    )


def _crossing() -> tuple[Bad, ...]:
    """Rules between fields: CEL in the CRD, `spec/rules.py` in Python, the same words."""
    return (
        Bad(
            "fewer workers without a checkpoint",
            {"spec.recovery.shrinkAfterSeconds": 60},
            "spec.recovery.shrinkAfterSeconds",
            "fewer workers resume from a checkpoint",
        ),
        Bad(
            "fewer workers than the fewest",
            {"spec.recovery.shrinkAfterSeconds": 60, "spec.checkpoint.claimName": "shared", "spec.workers.minReplicas": 4},
            "spec.recovery.shrinkAfterSeconds",
            "workers.minReplicas < workers.maxReplicas",
        ),
        Bad(
            "max below min",
            {"spec.workers": {"minReplicas": 4, "maxReplicas": 2}},
            "spec.workers.maxReplicas",
            "2 is below spec.workers.minReplicas: 4; raise maxReplicas or lower minReplicas",
        ),
        Bad(
            "no source",
            {"spec.dataset.source": {}},
            "spec.dataset.source",
            "give exactly one of persistentVolumeClaim, s3, configMap, builtin, generated",
        ),
        Bad(
            "two sources",
            {"spec.dataset.source.persistentVolumeClaim": {"claimName": "graphs"}},
            "spec.dataset.source",
            "give exactly one of persistentVolumeClaim, s3, configMap, builtin, generated",
        ),
        Bad(
            "generated graph without vertices",
            {"spec.dataset": generated_without("vertices")},
            "spec.dataset.vertices",
            "required with dataset.source.generated",
        ),
        Bad(
            "generated graph without edges",
            {"spec.dataset": generated_without("edges")},
            "spec.dataset.edges",
            "required with dataset.source.generated",
        ),
        Bad(
            "generated graph without featureSize",
            {"spec.dataset": generated_without("featureSize")},
            "spec.dataset.featureSize",
            "required with dataset.source.generated",
        ),
        Bad(
            "generated graph without classes",
            {"spec.dataset": generated_without("classes")},
            "spec.dataset.classes",
            "required with dataset.source.generated",
        ),
        Bad(
            "own script whose graph no reader of ours may know",
            {
                "spec.dataset": {key: value for key, value in STORED.items() if key != "vertices"},
                "spec.model.architecture": "Custom",
                "spec.model.parameters": 1000,
                "spec.model.script": "train.py",
            },
            "spec.dataset.vertices",
            "architecture Custom and model.script",
        ),
        Bad(
            "custom model without a size",
            {"spec.model.architecture": "Custom"},
            "spec.model.parameters",
            "required for architecture Custom",
        ),
        Bad(
            "three fanouts for two layers",
            {"spec.model.fanouts": [5, 5, 5], "spec.model.batchSize": 64},
            "spec.model.fanouts",
            "3 fanouts for spec.model.layers: 2; write one fanout for each layer",
        ),
        Bad("fanouts without a batch", {"spec.model.fanouts": [10, 5]}, "spec.model.batchSize", "required with fanouts"),
        Bad(
            "seven parts for two to four workers",
            {"spec.partitioning.count": 7},
            "spec.partitioning.count",
            "7 parts cannot be dealt out evenly to the ranks of 2 to 4 workers of 1 GPUs; leave it out, or write a multiple",
        ),
        Bad(
            "fewer parts than workers",
            {"spec.partitioning.count": 1},
            "spec.partitioning.count",
            "of 1 GPUs; leave it out, or write a multiple",
        ),
        Bad(
            "997 parts for up to 996 workers",
            {"spec.workers": {"minReplicas": 2, "maxReplicas": 996}, "spec.partitioning.count": 997},
            "spec.partitioning.count",
            "997 parts cannot",
        ),
        Bad(
            "as many parts as workers of four GPUs",
            {
                "spec.workers": {"minReplicas": 4, "maxReplicas": 4, "resources": {"limits": {"nvidia.com/gpu": 4}}},
                "spec.partitioning.count": 4,
            },
            "spec.partitioning.count",
            "4 parts cannot be dealt out evenly to the ranks of 4 to 4 workers of 4 GPUs; leave it out, or write a multiple",
        ),
        Bad("a direction for a builtin graph", {"spec.dataset.direction": "Directed"}, "spec.dataset.direction", "leave it out"),
        Bad("parts of a builtin graph", {"spec.partitioning.method": "Precomputed"}, "spec.partitioning.method", "write Auto or METIS"),
        Bad(
            "parts of a generated graph",
            {
                "spec.dataset": {**STORED, "source": {"generated": {"kind": "SBM"}}},
                "spec.partitioning": {"method": "Precomputed", "claimName": "parts"},
            },
            "spec.partitioning.method",
            "builtin and generated ones have none",
        ),
        Bad("approval of no plan", {"spec.planner": "None", "spec.startPolicy": "Manual"}, "spec.planner", "makes no plan to approve"),
        Bad(
            "only a plan from no planner", {"spec.planner": "None", "spec.startPolicy": "Never"}, "spec.planner", "makes no plan to approve"
        ),
        Bad(
            "one label required and preferred",
            {"spec.placement.topology": {"required": "topology.kubernetes.io/zone", "preferred": "topology.kubernetes.io/zone"}},
            "spec.placement.topology.preferred",
            "write a narrower label or leave preferred out",
        ),
        Bad("GPUs with no memory", {"spec.workers.gpuMemory": "0Gi"}, "spec.workers.gpuMemory", "write a quantity from 1"),
        Bad("no CPU", {"spec.workers.resources": {"requests": {"cpu": "0.0"}}}, CPU_REQUEST, "write a quantity above 0"),
        Bad(
            "half a device",
            {"spec.workers.resources": {"limits": {"rdma/hca": "500m"}}},
            "spec.workers.resources.limits",
            "a whole number of each",
        ),
        Bad(
            "a device requested without a limit",
            {"spec.workers.resources": {"requests": {"rdma/hca": 1}}},
            "spec.workers.resources.requests",
            "write the same number under limits",
        ),
        Bad("half a GPU", {"spec.workers.resources": limits("500m")}, "spec.workers.resources.limits", "write a whole number from 1 to 16"),
        Bad(
            "17 GPUs a worker", {"spec.workers.resources": limits(17)}, "spec.workers.resources.limits", "write a whole number from 1 to 16"
        ),
        Bad(
            "fewer GPUs requested than the limit",
            {"spec.workers.resources": {**limits(2), "requests": {"nvidia.com/gpu": 1}}},
            "spec.workers.resources.requests",
            "write the same number under limits",
        ),
        Bad(
            "GPUs requested without a limit",
            {"spec.workers.resources": {"requests": {"nvidia.com/gpu": 1}}},
            "spec.workers.resources.requests",
            "write the same number under limits",
        ),
        Bad(
            "more memory requested than the limit",
            {"spec.workers.resources": {"limits": {"memory": "1Gi"}, "requests": {"memory": "1025Mi", "cpu": 1}}},
            "spec.workers.resources.requests",
            "more of a resource is requested than its limit allows; lower the request or raise the limit",
        ),
        Bad("name of 51 characters", {"metadata.name": "a" * 51}, "metadata.name", "write at most 50 characters of a-z, 0-9 and -"),
        Bad("name that begins with a digit", {"metadata.name": "2-layers"}, "metadata.name", "first a letter"),
        Bad("name with a dot", {"metadata.name": "cora.v2"}, "metadata.name", "of a-z, 0-9 and -"),
        Bad(
            "generated name that gets too long",
            {"metadata.name": ABSENT, "metadata.generateName": "a" * 46},
            "metadata.name",
            "write at most 50 characters",
            spec_path="metadata.generateName",
        ),
    )


CROSSING_JOBS: Final = _crossing()
BAD_JOBS: Final = _typed() + CROSSING_JOBS

GOOD_JOBS: Final[dict[str, Resource]] = {
    "the least": job(),
    "one worker": job({"spec.workers": {"maxReplicas": 1}}),
    "sampled GraphSAGE from S3": job(
        {
            "spec.model": {"architecture": "GraphSAGE", "layers": 3, "fanouts": [15, 10, 5], "batchSize": 1024},
            "spec.dataset": STORED,
            "spec.workers": {
                "minReplicas": 2,
                "maxReplicas": 8,
                "gpuMemory": "24Gi",
                "resources": {"limits": {"memory": "1.5Ti"}, "requests": {"cpu": "3500m"}},
            },
        }
    ),
    "stored graph whose sizes are to be read": job({"spec.dataset": {"source": STORED["source"], "path": STORED["path"]}}),
    "GAT from a claim, approved by hand": job(
        {
            "spec.model": {"architecture": "GAT", "heads": 8},
            "spec.dataset": {**STORED, "source": {"persistentVolumeClaim": {"claimName": "graphs"}}},
            "spec.startPolicy": "Manual",
        }
    ),
    "hyper-parameters": job(
        {
            "spec.model.hyperparameters": {
                "learningRate": "0.1",
                "learningRateSchedule": "Cosine",
                "dropout": "0",
                "patienceEpochs": 10,
                "edgeFeatures": False,
            }
        }
    ),
    "custom model from a ConfigMap": job(
        {
            "spec.model": {"architecture": "Custom", "parameters": 1_000_000, "script": "train/mine.py"},
            "spec.dataset": {**STORED, "source": {"configMap": {"name": "small-graph"}}},
        }
    ),
    "parts that four workers share": job({"spec.partitioning": {"method": "METIS", "count": 8, "balance": "Equal"}}),
    "a stored graph whose edges have one direction": job({"spec.dataset": {**STORED, "direction": "Directed", "trainVertices": 90_941}}),
    "parts that came with a stored graph": job({"spec.dataset": STORED, "spec.partitioning.method": "Precomputed"}),
    "1000 workers, 1000 parts": job({"spec.workers": {"minReplicas": 1000, "maxReplicas": 1000}, "spec.partitioning.count": 1000}),
    "16000 ranks, 16000 parts": job(
        {
            "spec.workers": {"minReplicas": 1000, "maxReplicas": 1000, "resources": {"limits": {"nvidia.com/gpu": 16}}},
            "spec.partitioning.count": 16000,
        }
    ),
    "a plan only": job({"spec.startPolicy": "Never", "spec.planner": "Heuristic"}),
    "no planner": job({"spec.planner": "None"}),
    "required and preferred levels": job(
        {
            "spec.placement": {
                "mode": "Preferred",
                "communicationWeight": "0.5",
                "nodeSelector": {"example.com/pool": "gnn", "spot": ""},
                "topology": {"required": "topology.kubernetes.io/region", "preferred": "topology.kubernetes.io/zone"},
            }
        }
    ),
    "pod templates of any form": job(
        {
            "spec.workers.template": {
                "spec": {"containers": [{"name": "worker", "args": ["a\nb"], "resources": {"limits": {"cpu": "1500m"}}}]}
            },
            "spec.launcher.template": {"metadata": {"annotations": {"note": "größer"}}},
        }
    ),
    "name of 50 characters": job({"metadata.name": "a" * 50}),
    "everything about its end": job(
        {
            "spec.checkpoint": {"claimName": "shared", "everyEpochs": 5},
            "spec.recovery": {"maxPlanChanges": 0, "replaceLostWorkers": False, "forceDeleteAfterSeconds": 300, "shrinkAfterSeconds": 600},
            "spec.runPolicy": {"suspend": True, "cleanPodPolicy": "All", "backoffLimit": 0, "ttlSecondsAfterFinished": 0},
            "spec.policyRef": {"name": "default"},
        }
    ),
}
