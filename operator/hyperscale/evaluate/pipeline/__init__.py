"""In: a planned job and what is assumed of its cluster. Out: every stage's outcome, and the score that they make together."""
