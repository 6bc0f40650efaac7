"""The operator process. In: events and readings. Out: decisions, API writes, one status write a pass."""
