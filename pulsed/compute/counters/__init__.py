"""What is counted of a GPU over the time that its samples cover."""
