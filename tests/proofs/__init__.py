"""In: the proved checker's source. Out: the checker extracted from it, and the tools that Debian packages provide for that."""
