"""In: a question. Out: good placements of one job, proven best where the time allows."""
