"""In: a plan, its question and the cluster. Out: what contradicts what, and a certificate that a proof assistant accepts."""
