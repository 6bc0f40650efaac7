"""In: arrays of one question. Out: scores and placements, from compiled code, else numpy. The one door to compiled search."""
