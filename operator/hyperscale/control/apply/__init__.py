"""The border to the Kubernetes API: every request that the operator itself makes."""

import os

# The official client asks for the home directory when it is imported; a user id without a name and without HOME has none.
os.environ.setdefault("HOME", "/")
