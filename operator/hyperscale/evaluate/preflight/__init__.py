"""In: a job and its code. Out: what its first steps did in a limited process, and what memory they need."""
