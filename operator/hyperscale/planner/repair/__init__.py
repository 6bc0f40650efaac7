"""In: a plan in force and ranks that lost their nodes. Out: a plan that moves few ranks."""
