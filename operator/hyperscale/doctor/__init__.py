"""What is wrong with an installation, and what mends it: pure checks from facts to findings. Gathering the facts is the command line's."""
