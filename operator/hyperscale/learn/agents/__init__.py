"""In: simulated streams of jobs. Out: agents of stable-baselines3, masked PPO and the DQN of the seeds."""
