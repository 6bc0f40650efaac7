"""In: a question and placements. Out: predicted seconds, and bounds that no placement can beat."""
