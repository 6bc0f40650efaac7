"""In: files of one format. Out: arrays of a training graph, within stated bounds."""
