"""In: the other agents. Out: latency and bandwidth of few links, within a budget of bytes."""
