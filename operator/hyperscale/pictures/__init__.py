"""In: a snapshot or a published topology. Out: SVG, HTML and GraphML."""
