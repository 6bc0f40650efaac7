"""In: several jobs and machines. Out: an assignment of machines to jobs at the least total cost."""
