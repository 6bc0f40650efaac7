"""Readers of training graphs, generators, and the store of partitions."""
