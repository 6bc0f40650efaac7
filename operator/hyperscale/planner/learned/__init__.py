"""In: a question. Out: placements proposed by trained networks, computed in numpy."""
