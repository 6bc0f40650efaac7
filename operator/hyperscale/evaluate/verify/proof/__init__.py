"""In: limits and facts of a plan as numbers. Out: PlanChecker.v, a checker that Coq proves correct, and certificates of single plans."""
