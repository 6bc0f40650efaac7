"""In: a job's status and events. Out: what it is doing, what it waits for, what a person can do."""
