"""In: a process that runs code of an author. Out: which files, addresses and processes it asks for, and limits that it cannot leave."""
