"""Agents of stable-baselines3 on the stream of jobs: masked PPO, and the DQN of the seeds."""
