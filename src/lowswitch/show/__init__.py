"""What people see of results: tables, figures and progress."""
