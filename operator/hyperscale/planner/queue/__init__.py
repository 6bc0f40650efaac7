"""In: pending and running jobs. Out: which pending job starts next, with how many workers."""
