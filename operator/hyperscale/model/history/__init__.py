"""In: nothing. Out: what finished runs teach the planners."""
