"""In: measured epochs of other runs. Out: epoch seconds of this one, with an interval that is true as often as it says."""
