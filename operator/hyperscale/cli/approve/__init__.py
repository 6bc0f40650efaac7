"""In: a job whose plan waits for a person. Out: the plan approved, and why."""
