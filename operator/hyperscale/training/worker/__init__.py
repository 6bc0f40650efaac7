"""Entry points of the pods: launcher, rank, own script and partition Job. In: the contract. Out: exit codes and results."""
