"""The types behind the custom resources, and the one source of their CRD schemas. In: nothing. Out: typed spec and status."""
