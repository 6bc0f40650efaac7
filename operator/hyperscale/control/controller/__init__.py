"""In: Kubernetes events. Out: passes over jobs, each by one worker at a time."""
