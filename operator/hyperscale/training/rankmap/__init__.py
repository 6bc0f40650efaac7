"""In: what parts send each other, and the node of each rank. Out: the rank of each part. Pure."""
