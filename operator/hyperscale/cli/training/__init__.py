"""In: models, data sets and scripts. Out: analyses, partitions, schedules and trained planners."""
