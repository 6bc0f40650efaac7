"""In: a cluster graph or a published topology. Out: PNG, HTML and GraphML."""
