"""What runs in the pods of a job. In: a training graph and the contract of a run. Out: a trained model and its result."""
