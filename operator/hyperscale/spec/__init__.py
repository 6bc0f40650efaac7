"""In: untrusted custom resources. Out: typed specs, or an error with the path of the field and what to write instead."""
