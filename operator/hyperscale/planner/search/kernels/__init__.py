"""In: arrays of one question. Out: scores and placements, from compiled code or its numpy twin. The one door to compiled search."""
