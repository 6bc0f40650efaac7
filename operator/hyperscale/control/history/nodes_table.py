"""The table of lives of nodes: one row for each time in service, with the cause that ended it."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sql

from hyperscale.control.history.database import LOST
from hyperscale.control.history.runs_table import METADATA
from hyperscale.evaluate.calibration.lessons import MAX_LIVES, NodeLife

NODES: Final = sql.Table(
    "hyperscale_node_lives",
    METADATA,
    sql.Column("cluster", sql.Text, primary_key=True),
    sql.Column("node", sql.Text, primary_key=True),
    sql.Column("insert_seconds", sql.Double, primary_key=True),
    sql.Column("unit_class", sql.Text, nullable=False),
    sql.Column("remove_seconds", sql.Double),
    sql.Column("cause", sql.Text, nullable=False),
)
"""Operators of several clusters may share a database; `cluster` tells their nodes apart."""


def read_lives(connection: sql.Connection, cluster: str) -> tuple[NodeLife, ...]:
    """Return the newest `MAX_LIVES` lives of a cluster's nodes, oldest first."""
    newest = (
        sql.select(NODES).where(NODES.c.cluster == cluster).order_by(NODES.c.insert_seconds.desc(), NODES.c.node.desc()).limit(MAX_LIVES)
    )
    rows = connection.execute(newest).all()
    return tuple(NodeLife(row.node, row.unit_class, row.insert_seconds, row.remove_seconds, row.cause) for row in reversed(rows))


def write_lives(connection: sql.Connection, cluster: str, lives: tuple[NodeLife, ...]) -> None:
    """Keep these lives in place of what was there of them, and of the cluster's no more than `MAX_LIVES`. ValueError: one is not kept."""
    for life in lives:
        connection.execute(sql.delete(NODES).where(_same(cluster, life)))
    rows = [
        {
            "cluster": cluster,
            "node": life.node,
            "insert_seconds": life.insert_seconds,
            "unit_class": life.unit_class,
            "remove_seconds": life.remove_seconds,
            "cause": life.cause,
        }
        for life in lives
    ]
    if rows:
        connection.execute(sql.insert(NODES), rows)
        if any(connection.scalar(sql.select(NODES.c.node).where(_same(cluster, life))) is None for life in lives):
            raise ValueError(LOST)
    own = sql.select(NODES.c.insert_seconds).where(NODES.c.cluster == cluster).order_by(NODES.c.insert_seconds.desc())
    oldest = connection.execute(own.offset(MAX_LIVES).limit(1)).scalar()
    if oldest is not None:
        gone = (NODES.c.cluster == cluster, NODES.c.insert_seconds <= oldest, NODES.c.remove_seconds.is_not(None))
        connection.execute(sql.delete(NODES).where(*gone))


def prune_lives(connection: sql.Connection, before: float) -> None:
    """Delete lives that ended before this time (Unix seconds)."""
    connection.execute(sql.delete(NODES).where(NODES.c.remove_seconds < before))


def _same(cluster: str, life: NodeLife) -> sql.ColumnElement[bool]:
    return sql.and_(NODES.c.cluster == cluster, NODES.c.node == life.node, NODES.c.insert_seconds == life.insert_seconds)
