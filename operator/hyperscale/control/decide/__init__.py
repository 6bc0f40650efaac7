"""In: the observed state of one job. Out: its next step. `chain` holds the order of the checks; the other modules hold one policy each."""
