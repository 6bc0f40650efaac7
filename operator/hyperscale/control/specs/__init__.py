"""In: watched resources. Out: parsed specs and the planner's question about a job."""
