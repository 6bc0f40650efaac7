"""In: predictions of finished runs and what happened. Out: how far each stage of the evaluation can be trusted."""
