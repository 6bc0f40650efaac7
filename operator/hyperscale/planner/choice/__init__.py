"""In: all proposed placements. Out: the plan that is chosen with its reasons, or a refusal."""
