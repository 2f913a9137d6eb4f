"""What people and programs see: records in, text out."""
