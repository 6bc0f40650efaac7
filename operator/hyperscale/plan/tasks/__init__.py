"""Several jobs at once: which machines each gets, so that all of them together cost least."""
