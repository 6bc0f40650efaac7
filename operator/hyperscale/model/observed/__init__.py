"""In: status, plan and pods of one job. Out: its observed state, on which `decide` works."""
