"""In: counts and states of the operator. Out: Prometheus metrics, liveness and readiness over HTTP."""
