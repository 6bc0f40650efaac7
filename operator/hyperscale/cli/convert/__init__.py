"""`hyperscale convert`. In: objects of the API before ADR 9, in files or a cluster. Out: the same objects with the names of today."""
