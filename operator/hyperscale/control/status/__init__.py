"""In: one look and one decision. Out: conditions, phase and plan for the status. Pure."""
