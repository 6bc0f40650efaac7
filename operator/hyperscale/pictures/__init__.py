"""In: a cluster graph or a published topology. Out: SVG, HTML and GraphML."""
