"""In: result files, or groups of runs in history. Out: what differs, by how much, and how sure that is."""
