"""In: all jobs of one cluster with what each may be given, pools of GPUs. Out: what each job is given in the next round. Pure."""
