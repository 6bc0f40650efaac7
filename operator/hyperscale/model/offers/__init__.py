"""In: plans of one job. Out: what a person compares who decides on them."""
