"""What others do with the same question: placements of one job on a cluster, as candidates with one entry a worker.

Every method is a `Method`; all are scored by the same objective after the same ring repair (`Instance.score`).
"""
