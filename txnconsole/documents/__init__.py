"""What is known of one object as a file, once for the REST API and the console."""
