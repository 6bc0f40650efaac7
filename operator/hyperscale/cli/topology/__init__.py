"""In: a live cluster or a snapshot file. Out: snapshots, summaries, pictures."""
