"""The frozen types in which the stages meet: the job as asked for, the cluster as seen, the plan as made."""
