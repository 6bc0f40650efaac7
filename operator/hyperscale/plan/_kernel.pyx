"""Compiled twin of `kernel_numpy`."""
def version():
    return 1
