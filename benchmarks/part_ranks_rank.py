"""One rank of benchmarks/part_ranks_live.py: parts by the product's own loader, exchanges of both placements in turn, a short training."""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.part_ranks_live import EPOCHS, HIDDEN, HYPERSCALE, LAYERS, NODES, NUMBERS, RANKS, ROUNDS, links_of_cards
from hyperscale.model.adjacency import LocalPart, TrainingGraph
from hyperscale.model.api.node_links import NodeLinks
from hyperscale.training.data.formats import archive
from hyperscale.training.engine.halo_exchange import Exchange
from hyperscale.training.rankmap.exchange_cost import exchange_cost
from hyperscale.training.rankmap.rank_links import rank_links
from hyperscale.training.runtime import contract
from hyperscale.training.runtime.comm import Comm, connect
from hyperscale.training.worker import load_part, train

VERTICES, REGIONS = 3600, 3
DEGREES = {"community": 8.0, "region": 3.0, "all": 0.3}
PLANS = {NUMBERS: "numbers.json", HYPERSCALE: "placed.json"}


def regions_graph(seed: int) -> TrainingGraph:
    """As many communities as ranks, in regions: most edges inside of a community, many inside of a region, few else. Ids are shuffled."""
    rng = np.random.default_rng(seed)
    size, region = VERTICES // RANKS, VERTICES // REGIONS
    ends = []
    for degree, block in ((DEGREES["community"], size), (DEGREES["region"], region), (DEGREES["all"], VERTICES)):
        one = rng.integers(0, VERTICES, int(VERTICES * degree / 2))
        ends.append((one, one // block * block + rng.integers(0, block, len(one))))
    mixed = rng.permutation(VERTICES)
    one, other = (mixed[np.concatenate(side)] for side in zip(*ends, strict=True))
    one, other = one[one != other], other[one != other]
    keys = np.unique(np.concatenate([one * VERTICES + other, other * VERTICES + one]))
    sources, targets = np.divmod(keys, VERTICES)
    kind = rng.integers(0, 3, VERTICES)
    return TrainingGraph(
        indptr=np.concatenate([[0], np.cumsum(np.bincount(sources, minlength=VERTICES))]).astype(np.int64),
        indices=targets.astype(np.int32),
        features=rng.random((VERTICES, 16), dtype=np.float32),
        labels=rng.integers(0, 3, VERTICES),
        train=kind == 0,
        validation=kind == 1,
        test=kind == 2,
        classes=3,
        name="regions",
    )


def rank(options: argparse.Namespace) -> None:
    """Measure every graph; rank 0 writes the answers."""
    comm = connect(RANKS)
    answers = []
    for entry in options.graphs:
        name, _, seed = entry.partition(":")
        variables = _variables(name, int(seed), options.folder, comm)
        answers.append({"graph": name, "seed": int(seed)} | measured(comm, variables, options, train_too=entry == options.graphs[0]))
        if comm.rank == 0:  # so far: a machine that is too busy ends the job
            options.out.write_text(json.dumps(answers))
    comm.close()


def _variables(name: str, seed: int, folder: Path, comm: Comm) -> dict[str, str]:
    """Of the job's contract, without the plan; rank 0 writes the graph."""
    dataset = {"HYPERSCALE_DATASET_SOURCE": "builtin", "HYPERSCALE_DATASET_PATH": name}
    if name == "regions":
        file = folder / f"{name}-{seed}.npz"
        if comm.rank == 0:
            archive.write(file, regions_graph(seed))
        comm.barrier()
        dataset = {
            "HYPERSCALE_DATASET_SOURCE": "persistentVolumeClaim",
            "HYPERSCALE_DATASET_PATH": str(file),
            "HYPERSCALE_DATASET_FORMAT": "NPZ",
        }
    return {
        **{key: text for key, text in os.environ.items() if not key.startswith("HYPERSCALE_")},
        **dataset,
        "HYPERSCALE_MODEL": json.dumps({"architecture": "GCN", "layers": LAYERS, "hiddenSize": HIDDEN, "epochs": EPOCHS}),
        "HYPERSCALE_PARTITIONING_METHOD": "METIS",
        "HYPERSCALE_SEED": str(seed),
        "HYPERSCALE_METRICS_PORT": "0",
    }


def measured(comm: Comm, variables: dict[str, str], options: argparse.Namespace, *, train_too: bool) -> dict[str, Any]:
    """Copies, predicted and measured seconds of both placements; collective."""
    runs = {name: contract.read({**variables, "HYPERSCALE_PLAN_FILE": str(options.folder / file)}) for name, file in PLANS.items()}
    parts = {name: load_part.part(run, comm, variables) for name, run in runs.items()}
    stated = links_of_cards(options.cards)
    nodes = [str(at * NODES // RANKS) for at in range(RANKS)]
    links = rank_links(nodes, NodeLinks(tuple(stated["secondsPerByte"]), tuple(stated["latencySeconds"])))
    answer: dict[str, Any] = {}
    for name, part in parts.items():
        table = comm.gather(torch.from_numpy(np.bincount(part.halo_owner, minlength=RANKS)), f"{name}.table").numpy().T
        cost = exchange_cost(table.astype(np.float64), links, np.arange(RANKS), 4.0 * HIDDEN)
        answer[name] = {"rows": cost.rows, "predicted": 2 * cost.bottleneck_seconds, "seconds": []}
    exchanges = {name: Exchange(comm, part, torch.device("cpu")) for name, part in parts.items()}
    for turn in range(ROUNDS + 1):  # the first makes connections
        for name, exchange in exchanges.items():
            seconds = _once(comm, exchange, parts[name], name)
            answer[name]["seconds"] += [seconds] if turn else []
    for name, run in runs.items() if train_too else ():
        result = train.train(run, comm)
        answer[name] |= {"epoch": result.epoch_seconds, "communication": result.communication_seconds}
    return answer


def _once(comm: Comm, exchange: Exchange, part: LocalPart, name: str) -> float:
    """Seconds of the slowest rank for rows there and their gradients back."""
    x = torch.ones((len(part.owned), HIDDEN), requires_grad=True)
    comm.barrier()
    started = time.perf_counter()
    copies = exchange.start(x, name)()
    torch.autograd.backward(copies, torch.ones_like(copies))
    own = time.perf_counter() - started
    return float(comm.gather(torch.tensor([own], dtype=torch.float64), "exchange.seconds").max())
