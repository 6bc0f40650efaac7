"""In: a job, its nodes and how they fail. Out: thousands of futures: when it ends, what an interval or a spare node is worth."""
