"""In: decisions of people in history. Out: what each namespace weighs time, cost and risk by, and what to ask next."""
