"""In: running jobs on fresh measurements. Out: whether moving some of their ranks pays, and to where."""
