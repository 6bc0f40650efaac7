"""In: facts of one moment. Out: one verdict a check. Pure."""
