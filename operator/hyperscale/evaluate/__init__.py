"""In: a job, its plan, and what finished runs taught. Out: proof, forecast, risk and score, before a GPU is spent."""
