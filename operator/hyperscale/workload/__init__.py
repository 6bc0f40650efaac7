"""From a job to what one of its epochs costs, whatever it runs on."""
