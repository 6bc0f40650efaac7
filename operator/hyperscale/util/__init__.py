"""Small helpers without knowledge of HyperScale: quantities, times, threads, memory of the interpreter, logs."""
