"""In: jobs, a policy and what is known of the cluster. Out: plans, or what the operator would do with the jobs."""
