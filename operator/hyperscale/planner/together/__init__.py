"""In: pending jobs that start together, and a plan of each. Out: their placements with the least sum of objectives."""
