"""In: a planned job, its time, and who else runs and waits. Out: its energy, its wait in the queue, and how it delays others."""
