"""Which gradients go together in one allreduce, and when: exact schedules, what other rules would do, and how Horovod is told."""
