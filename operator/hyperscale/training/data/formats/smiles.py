"""A table of SMILES to molecular graphs, with the nine atom and three bond features of the Open Graph Benchmark (Hu et al., NeurIPS 2020).

CSV with a header: a column `smiles`, optionally `split` (train, val, test), every other column of numbers is a task (empty: unknown).
Without `split` the scaffold split of MoleculeNet and OGB: Bemis-Murcko scaffolds, the common ones train, 80 : 10 : 10.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from pathlib import Path
from typing import Any, Final

import numpy as np

from hyperscale.model.adjacency import Array, TrainingGraph
from hyperscale.training.data.assemble import check_masks
from hyperscale.training.data.data_errors import fault, shown
from hyperscale.training.data.formats.edgelist import table
from hyperscale.training.data.formats.tables import SPLIT, named, parts_of
from hyperscale.training.data.limits import MAX_CLASSES, Stated, check_bytes

COLUMN: Final = "smiles"
MAX_SMILES: Final = 5000
"""Characters; the longest of MoleculeNet's HIV set has 400."""
MAX_UNREADABLE: Final = 0.01
PARTS: Final = (0.8, 0.1)
CHIRALITY: Final = ("CHI_UNSPECIFIED", "CHI_TETRAHEDRAL_CW", "CHI_TETRAHEDRAL_CCW", "CHI_OTHER")
HYBRIDIZATION: Final = ("SP", "SP2", "SP3", "SP3D", "SP3D2")
BONDS: Final = ("SINGLE", "DOUBLE", "TRIPLE", "AROMATIC")
STEREO: Final = ("STEREONONE", "STEREOZ", "STEREOE", "STEREOCIS", "STEREOTRANS", "STEREOANY")
ATOM_SIZES: Final = (119, 5, 12, 12, 10, 6, 6, 2, 2)
"""Values of each atom feature: atomic number, chirality, degree, charge, hydrogens, radical electrons, hybridization, aromatic, in ring."""
BOND_SIZES: Final = (5, 6, 2)
"""Values of each bond feature: kind, stereo, conjugated."""


_log = logging.getLogger("hyperscale.training.data")


def read(file: Path, stated: Stated, seed: int) -> TrainingGraph:
    """All molecules of `file` in the order of its rows; raises DataError.

    Up to `MAX_UNREADABLE` of the rows may be no molecule that RDKit accepts (it grows stricter: MoleculeNet's HIV set has 0.02 %): they
    are left out, and a warning says which is the first.
    """
    rows = named(table(file, None, header=True), file, (COLUMN, SPLIT))
    if not rows.num_rows:
        raise fault(file, "no molecules", "write one a line below the names of the columns")
    if COLUMN not in rows.column_names:
        raise fault(file, f"no column {COLUMN!r}", "name the column of the molecules so")
    labels = _labels(rows, file)
    read_rows = [_molecule(text, file, at) for at, text in enumerate(rows.column(COLUMN).to_pylist())]
    kept = np.asarray([molecule is not None for molecule in read_rows], bool)
    _check_readable(kept, rows.column(COLUMN), file)
    molecules = [molecule for molecule in read_rows if molecule is not None]
    check_bytes(40 * sum(molecule.GetNumAtoms() + 2 * molecule.GetNumBonds() for molecule in molecules), file, "its molecules")
    masks = _split(rows, kept, file) or scaffold_split(molecules)
    graph = graphs([arrays(molecule) for molecule in molecules], labels[kept], masks, file.name, file)
    stated.check_counts(len(graph.indptr) - 1, len(graph.indices), file)
    return graph


def arrays(molecule: Any) -> tuple[Array, Array, Array, Array]:  # noqa: ANN401 - rdkit.Chem.Mol
    """Atom features (n, 9), ends of bonds in both directions (2 b,) and (2 b,), their features (2 b, 3); int64."""
    atoms = np.asarray([_atom(atom) for atom in molecule.GetAtoms()], np.int64).reshape(-1, len(ATOM_SIZES))
    bonds = [(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx(), *_bond(bond)) for bond in molecule.GetBonds()]
    flat = np.asarray(bonds, np.int64).reshape(-1, 2 + len(BOND_SIZES))
    sources, destinations = np.concatenate([flat[:, 0], flat[:, 1]]), np.concatenate([flat[:, 1], flat[:, 0]])
    return atoms, sources, destinations, np.concatenate([flat[:, 2:], flat[:, 2:]])


def graphs(
    parts: list[tuple[Array, Array, Array, Array]], labels: Array, masks: tuple[Array, Array, Array], name: str, place: Path
) -> TrainingGraph:
    """One `TrainingGraph` of many; `parts` as `arrays` gives them, edges once in each direction.

    Raises DataError at `place` where features are not finite, categories beyond bounds, or labels (g, t) infinite.
    """
    for at, (vertex_features, _, _, edge_features) in enumerate(parts):
        _check_features(vertex_features, edge_features, f"{place}: graph {at}")
    if np.isinf(labels).any():
        raise fault(
            f"{place}: graph {int(np.argmax(np.isinf(labels).any(axis=1)))}", "a label is infinite", "write numbers, empty for unknown"
        )
    offsets = np.concatenate([[0], np.cumsum([len(part[0]) for part in parts])]).astype(np.int64)
    sources = np.concatenate([np.zeros(0, np.int64), *(part[1] + low for part, low in zip(parts, offsets[:-1], strict=True))])
    destinations = np.concatenate([np.zeros(0, np.int64), *(part[2] + low for part, low in zip(parts, offsets[:-1], strict=True))])
    order = np.lexsort((sources, destinations))
    indptr = np.zeros(int(offsets[-1]) + 1, np.int64)
    np.cumsum(np.bincount(destinations, minlength=int(offsets[-1])), out=indptr[1:])
    features = np.concatenate([part[0] for part in parts]) if parts else np.zeros((0, len(ATOM_SIZES)), np.int64)
    edges = np.concatenate([part[3] for part in parts])[order] if parts else np.zeros((0, len(BOND_SIZES)), np.int64)
    return TrainingGraph(
        indptr, sources[order].astype(np.int32), features, labels, *masks, labels.shape[1], offsets, edges, name
    )  # fmt: skip


def _check_features(vertex_features: Array, edge_features: Array, place: str) -> None:
    """Raise DataError at `place` for a feature that is not finite, or a category beyond bounds."""
    if not (np.isfinite(vertex_features).all() and np.isfinite(edge_features).all()):
        raise fault(place, "a feature is not finite", "write a number for every vertex and edge")
    for values in (vertex_features, edge_features):
        if values.dtype.kind == "i" and len(values) and not 0 <= int(values.min()) <= int(values.max()) < MAX_CLASSES:
            raise fault(place, f"whole features are categories, 0..{MAX_CLASSES - 1}", "number them so, or write fractions")


def scaffold_split(molecules: list[Any]) -> tuple[Array, Array, Array]:
    """Train, validation and test masks: whole scaffolds, the largest groups first, as in DeepChem."""
    from rdkit.Chem.Scaffolds import MurckoScaffold

    scaffold: Any = MurckoScaffold.MurckoScaffoldSmiles  # RDKit's Python parts have no annotations
    groups: dict[str, list[int]] = defaultdict(list)
    for at, molecule in enumerate(molecules):
        groups[scaffold(mol=molecule, includeChirality=False)].append(at)
    count = len(molecules)
    masks = np.zeros((3, count), bool)
    for group in sorted(groups.values(), key=lambda group: (len(group), group[0]), reverse=True):
        filled = masks.sum(axis=1)
        if filled[0] + len(group) <= PARTS[0] * count:
            masks[0, group] = True
        elif filled[0] + filled[1] + len(group) <= sum(PARTS) * count:
            masks[1, group] = True
        else:
            masks[2, group] = True
    return masks[0], masks[1], masks[2]


def _molecule(text: object, file: Path, row: int) -> Any:  # noqa: ANN401
    """None where RDKit accepts it not."""
    from rdkit import Chem, rdBase

    place = f"{file}: row {row + 1}"
    if not isinstance(text, str) or not text.strip() or len(text) > MAX_SMILES:
        raise fault(place, "no SMILES", f"write one of at most {MAX_SMILES} characters, or drop the row")
    with rdBase.BlockLogs():
        return Chem.MolFromSmiles(text)


def _check_readable(kept: Array, column: Any, file: Path) -> None:  # noqa: ANN401
    lost = np.flatnonzero(~kept)
    if not len(lost):
        return
    first = f"row {int(lost[0]) + 1}: {shown(column[int(lost[0])].as_py())} is no molecule that RDKit reads"
    if len(lost) > MAX_UNREADABLE * len(kept):
        raise fault(f"{file}: {first}", f"{len(lost)} of {len(kept)} rows are none", "correct them, or drop the rows")
    _log.warning("%s: %s; %d of %d rows left out", file, first, len(lost), len(kept))


def _atom(atom: Any) -> tuple[int, ...]:  # noqa: ANN401
    number = atom.GetAtomicNum()
    return (
        number - 1 if 1 <= number <= 118 else 118,
        _place(CHIRALITY, str(atom.GetChiralTag())),
        _bounded(atom.GetTotalDegree(), 0, 10),
        _bounded(atom.GetFormalCharge(), -5, 5),
        _bounded(atom.GetTotalNumHs(), 0, 8),
        _bounded(atom.GetNumRadicalElectrons(), 0, 4),
        _place(HYBRIDIZATION, str(atom.GetHybridization())),
        int(atom.GetIsAromatic()),
        int(atom.IsInRing()),
    )


def _bond(bond: Any) -> tuple[int, int, int]:  # noqa: ANN401
    stereo = str(bond.GetStereo())
    return _place(BONDS, str(bond.GetBondType())), STEREO.index(stereo) if stereo in STEREO else 0, int(bond.GetIsConjugated())


def _place(names: tuple[str, ...], name: str) -> int:
    """Place of `name`, or one past the last."""
    return names.index(name) if name in names else len(names)


def _bounded(value: int, low: int, high: int) -> int:
    """Place of `value` in low..high, or one past the last."""
    return value - low if low <= value <= high else high - low + 1


def _labels(rows: Any, file: Path) -> Array:  # noqa: ANN401 - pyarrow.Table
    """(g, t) float32, NaN for unknown."""
    import pyarrow as pa

    tasks = [name for name in rows.column_names if name not in (COLUMN, SPLIT)]
    if not tasks:
        raise fault(file, "no column of labels", "write one column of numbers for each task")
    labels = np.empty((rows.num_rows, len(tasks)), np.float32)
    for at, name in enumerate(tasks):
        column = rows.column(name)
        if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type) or pa.types.is_null(column.type)):
            raise fault(f"{file}: column {shown(name)}", f"holds {column.type}", "write numbers, empty for unknown, or drop the column")
        labels[:, at] = column.cast(pa.float32()).fill_null(np.nan).to_numpy()
    return labels


def _split(rows: Any, kept: Array, file: Path) -> tuple[Array, Array, Array] | None:  # noqa: ANN401
    """The table's own; None where it has none."""
    if SPLIT not in rows.column_names:
        return None
    values = np.asarray([str(value or "") for value in rows.column(SPLIT).to_pylist()], np.str_)[kept]
    masks = parts_of(values, f"{file}: column {SPLIT!r}")
    check_masks(masks, len(values), file)
    return masks
