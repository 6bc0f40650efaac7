"""In: the command line. Out: parsed arguments. Imports nothing heavy, so that `--help` answers at once."""
