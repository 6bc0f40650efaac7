"""Learning which pending job to start: a simulator of job streams, the tuning of the rule, and the training of the agent."""
