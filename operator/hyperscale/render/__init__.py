"""Pure: from a job and its plan to the MPIJob that runs it, and to the patches that let its pods go."""
