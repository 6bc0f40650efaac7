"""Which pending job starts next, and with how many workers."""
