"""In: stored runs. Out: predicted and measured epochs, and the corrections that follow."""
