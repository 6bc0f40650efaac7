"""In: a job, and its plan where there is one. Out: proof, forecast, risk and score, before a GPU is spent."""
