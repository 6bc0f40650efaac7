"""In: what each stage found. Out: one calibrated figure, and each stage's share in it."""
