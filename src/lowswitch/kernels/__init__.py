"""All compiled functions, and the arrays that they read and write."""
