"""Runs inside the job's pods: DGL and Horovod."""
