"""In: a job and its plan. Out: the MPIJob, the partition Job and the patches that release pods. Pure."""
