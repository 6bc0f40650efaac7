"""In: a plan. Out: what is wrong with it. An independent judge that shares nothing with the planners."""
