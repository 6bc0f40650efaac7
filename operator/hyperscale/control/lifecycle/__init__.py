"""In: a job's status and its MPIJob. Out: predicates on its life: may it be moved or preempted, who suspended it, who is unscheduled."""
