"""Whether a data set is many graphs, from a look at how it begins: Horovod wants to know before anything is read."""

from __future__ import annotations

from pathlib import Path

from hyperscale.training.data.sources import MOUNTED


def known_many(source: str, path: str, form: str) -> bool:
    """True for tables of SMILES, and for mounted files in OGB's or DGL's layout that hold more than one graph.

    False also where only reading would tell: what an object store has is not fetched for it, and faults are the reader's to name.
    """
    if form == "SMILES":
        return True
    place = Path(path)
    try:
        if source in MOUNTED and form == "OGB" and place.is_dir():
            from hyperscale.training.data.formats import ogb

            return ogb.labels_graphs(place)
        if source in MOUNTED and form == "DGL" and place.is_file():
            from hyperscale.training.data.formats import dglbinary

            return dglbinary.stated_graphs(place) > 1
    except (OSError, ValueError):
        pass
    return False
