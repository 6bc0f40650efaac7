"""In: samples of two or more groups. Out: whether they differ, by how much, and how sure that is."""
