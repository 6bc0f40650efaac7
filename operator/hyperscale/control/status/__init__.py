"""In: one look and one decision. Out: conditions, figures and plan for the status. Pure."""
