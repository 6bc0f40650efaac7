"""In: batches of seed vertices. Out: mini-batch training on sampled neighbourhoods."""
