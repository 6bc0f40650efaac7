"""In: a live installation. Out: facts for the doctor's checks, and its report as text."""
