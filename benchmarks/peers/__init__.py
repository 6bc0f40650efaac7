"""What the benchmarks compare with, each as small as it can be."""
