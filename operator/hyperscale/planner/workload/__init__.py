"""In: a job. Out: arithmetic, bytes and memory of one of its epochs, whatever it runs on."""
