"""In: simulated streams of jobs. Out: a tuned queue rule, and weights of the agent that chooses the next job."""
