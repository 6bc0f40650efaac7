"""Learning: simulators, imitation, reinforcement, and the gate that weights must pass. The only place with tensors."""
