"""In: which of two plans a person preferred. Out: what they weigh time, cost and risk by, and what to ask next."""
