"""In: decisions. Out: requests to the Kubernetes API, each bounded in time and safe to repeat."""

import os

# The official client asks for the home directory when it is imported; a user id without a name and without HOME has none.
os.environ.setdefault("HOME", "/")
