"""In: environment variables and the plan file. Out: a checked contract of the run, and how ranks communicate."""
