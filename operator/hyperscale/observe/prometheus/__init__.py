"""In: a Prometheus endpoint. Out: one reading of all figures, bounded in time and memory."""
