"""In: pending and running jobs. Out: admissions, preemptions and migrations, one question to the planner at a time."""
